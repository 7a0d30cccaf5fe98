#include "src/model/formats/tensor_type.h"

#include <fmt/format.h>

#include <array>

#include "src/base/error.h"

namespace kvcost {

const std::vector<TensorTypeInfo>& tensor_types() {
  static const std::vector<TensorTypeInfo> types{
      {TensorType::F32, "F32", 1, 4},       {TensorType::F16, "F16", 1, 2},
      {TensorType::BF16, "BF16", 1, 2},     {TensorType::Q4_0, "Q4_0", 32, 18},
      {TensorType::Q4_1, "Q4_1", 32, 20},   {TensorType::Q5_0, "Q5_0", 32, 22},
      {TensorType::Q5_1, "Q5_1", 32, 24},   {TensorType::Q8_0, "Q8_0", 32, 34},
      {TensorType::Q4_K, "Q4_K", 256, 144}, {TensorType::Q5_K, "Q5_K", 256, 176},
      {TensorType::Q6_K, "Q6_K", 256, 210}};
  return types;
}

const TensorTypeInfo& info(TensorType type) {
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (entry.type == type) return entry;
  }
  throw Failure("a tensor type without a description");
}

std::optional<TensorType> tensor_type(std::string_view name) {
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

std::optional<TensorType> tensor_type_of_ggml(uint32_t id) {
  for (const TensorTypeInfo& entry : tensor_types()) {
    if (static_cast<uint32_t>(entry.type) == id) return entry.type;
  }
  return std::nullopt;
}

std::string ggml_type_name(uint32_t id) {
  static constexpr std::array<std::string_view, 40> kNames{
      "F32",      "F16",      "Q4_0",    "Q4_1",  "Q4_2",       "Q4_3",       "Q5_0",       "Q5_1",
      "Q8_0",     "Q8_1",     "Q2_K",    "Q3_K",  "Q4_K",       "Q5_K",       "Q6_K",       "Q8_K",
      "IQ2_XXS",  "IQ2_XS",   "IQ3_XXS", "IQ1_S", "IQ4_NL",     "IQ3_S",      "IQ2_S",      "IQ4_XS",
      "I8",       "I16",      "I32",     "I64",   "F64",        "IQ1_M",      "BF16",       "Q4_0_4_4",
      "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4"};
  if (id < kNames.size()) return std::string(kNames[id]);
  return fmt::format("type {}", id);
}

}  // namespace kvcost
