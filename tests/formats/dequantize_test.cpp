#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "src/model/formats/safetensors.h"
#include "src/model/formats/tensor_type.h"

namespace kvcost {
namespace {

uint32_t bits(float value) {
  uint32_t result;
  std::memcpy(&result, &value, 4);
  return result;
}

/// Exactly, from the definition: a sign, five bits of exponent, ten of fraction.
double half_by_definition(int code) {
  int exponent = (code >> 10) & 31, fraction = code & 1023;
  double size = exponent == 0    ? std::ldexp(fraction, -24)
                : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return (code & 0x8000) != 0 ? -size : size;
}

}  // namespace

class Dequantize : public testing::TestWithParam<std::string> {};

// The goldens come from gguf-py by goldens/make_dequantize.py.
TEST_P(Dequantize, EqualsGgufPyBitForBit) {
  auto goldens = SafetensorsFile::open(std::filesystem::path(KVCOST_SOURCE_DIR) / "tests/formats/goldens" /
                                       "dequantize.safetensors");
  auto blocks = goldens.bytes(GetParam() + ".blocks");
  auto expected = goldens.numbers<float>(GetParam() + ".values");
  ASSERT_EQ(expected.size(), 512U);
  // Blocks may lie at any address.
  std::vector<std::byte> shifted(blocks.size() + 1);
  std::memcpy(shifted.data() + 1, blocks.data(), blocks.size());
  std::vector<float> got(expected.size(), -1.0F);
  dequantize(*tensor_type(GetParam()), shifted.data() + 1, 512, got.data());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(bits(got[i]), bits(expected[i])) << "number " << i;
}

INSTANTIATE_TEST_SUITE_P(Types, Dequantize,
                         testing::Values("BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K",
                                         "Q6_K"),
                         [](const auto& test) { return test.param; });

TEST(DequantizeF16, EveryHalf) {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> got(codes.size());
  dequantize(TensorType::F16, reinterpret_cast<const std::byte*>(codes.data()), 65536, got.data());
  for (int i = 0; i < 65536; ++i) {
    auto expected = static_cast<float>(half_by_definition(i));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got[static_cast<size_t>(i)])) << i;
    } else {
      ASSERT_EQ(bits(got[static_cast<size_t>(i)]), bits(expected)) << i;
    }
  }
}

TEST(TensorTypes, AreNamedByTheirIds) {
  for (const TensorTypeInfo& entry : tensor_types()) {
    EXPECT_EQ(tensor_type(entry.name), entry.type);
    EXPECT_EQ(tensor_type_of_ggml(static_cast<uint32_t>(entry.type)), entry.type);
    EXPECT_EQ(ggml_type_name(static_cast<uint32_t>(entry.type)), entry.name);
  }
  EXPECT_FALSE(tensor_type("IQ4_NL"));
  EXPECT_EQ(ggml_type_name(20), "IQ4_NL");
  EXPECT_EQ(ggml_type_name(99), "type 99");
}

}  // namespace kvcost
