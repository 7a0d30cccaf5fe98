#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// The stored types that can be decoded; the values are ggml's ids.
enum class TensorType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
};

/// `block_numbers` numbers are stored together in `block_bytes` bytes.
struct TensorTypeInfo {
  TensorType type;
  std::string_view name;
  int64_t block_numbers, block_bytes;
};

/// Every TensorType.
const std::vector<TensorTypeInfo>& tensor_types();
const TensorTypeInfo& info(TensorType type);
/// nullopt if it cannot be decoded.
std::optional<TensorType> tensor_type(std::string_view name);
std::optional<TensorType> tensor_type_of_ggml(uint32_t id);
/// ggml's name of any type it ever had, decodable or not: "IQ4_NL"; "type 99" if it has none.
std::string ggml_type_name(uint32_t id);

/// Decodes `numbers` numbers, a multiple of the type's block, to fp32: the values that gguf-py gives, bit for
/// bit. `in` holds numbers / block_numbers * block_bytes bytes, at any alignment. Thread-safe.
void dequantize(TensorType type, const std::byte* in, int64_t numbers, float* out);

}  // namespace kvcost
