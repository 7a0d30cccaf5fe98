#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codecs.h"

namespace kvcost {
namespace {

using testing::codec_of;

/// By the definition: scales in fp32, one operation at a time, every float of 8 and 4 bits by a search.
at::Tensor by_search(const at::Tensor& x, const std::string& second) {
  at::Tensor out = at::empty_like(x);
  const std::vector<double> scales = testing::e4m3_sizes(), elements = testing::e2m1_sizes();
  const int64_t d = x.size(2);
  auto over = [](const at::Tensor& numbers) {
    return std::max(numbers.abs().max().item<float>(), 1e-8f) / 2688.0f;
  };
  const at::Tensor rows = x.view({-1, d});
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const float above = second == "none" ? 1.0f : second == "tensor" ? over(x) : over(rows[row]);
    for (int64_t begin = 0; begin < d; begin += 16) {
      const at::Tensor block = rows[row].narrow(0, begin, std::min<int64_t>(16, d - begin));
      const float largest = block.abs().max().item<float>() / 6.0f / above;
      const float scale = static_cast<float>(testing::nearest_of(scales, largest)) * above;
      for (int64_t c = 0; c < block.size(0); ++c) {
        const float scaled = block.const_data_ptr<float>()[c] / (scale == 0 ? 1.0f : scale);
        out.data_ptr<float>()[row * d + begin + c] =
            static_cast<float>(testing::nearest_of(elements, scaled)) * scale;
      }
    }
  }
  return out;
}

}  // namespace

TEST(Nvfp4, EqualsASearchForTheNearest) {
  for (const char* second : {"none", "token", "tensor"}) {
    const std::string knobs = fmt::format(R"({{"second": "{}"}})", second);
    auto codec = codec_of("nvfp4", knobs.c_str());
    EXPECT_EQ(codec->looks_ahead(), second == std::string("tensor"));
    for (const at::Tensor& x :
         {testing::hard_numbers(2, 64, 1), testing::hard_numbers(3, 40, 2), testing::hard_numbers(1, 7, 3),
          testing::gaussian({3, 1, 17}, 4), at::zeros({2, 1, 16}), at::empty({0, 2, 16})}) {
      if (x.numel() > 0) {
        EXPECT_TRUE(testing::same_numbers(testing::round(*codec, x), by_search(x, second)))
            << knobs << x.sizes();
      }
      testing::expect_packs(*codec, x, fmt::format("{} head_dim {}", knobs, x.size(2)));
    }
  }
}

TEST(Nvfp4, PacksScalesThenElements) {
  at::Tensor x = at::zeros({1, 1, 17});
  x[0][0][0] = 12, x[0][0][1] = -1, x[0][0][2] = 5, x[0][0][15] = 7, x[0][0][16] = -0.75;
  auto byte = [](std::byte b) { return std::to_integer<int>(b); };
  const std::vector<std::byte> packed = testing::pack(*codec_of("nvfp4", "{}"), x);
  ASSERT_EQ(packed.size(), 2u + 9u);
  EXPECT_EQ(byte(packed[0]), 8 << 3);          // 12 / 6 = 2, as E4M3
  EXPECT_EQ(byte(packed[1]), 4 << 3);          // 0.75 / 6 = 2^-3
  EXPECT_EQ(byte(packed[2]), 0x7 | 0x9 << 4);  // 6, -0.5
  EXPECT_EQ(byte(packed[3]), 0x4);             // 2.5 -> 2: halves to even
  EXPECT_EQ(byte(packed[2 + 7]), 0x6 << 4);    // 3.5 -> 4
  EXPECT_EQ(byte(packed[2 + 8]), 0xf);         // -6
  // The tensor's scale comes first, a token's before its block scales: 12 / (6 * 448).
  for (const char* second : {R"({"second": "tensor"})", R"({"second": "token"})"}) {
    const std::vector<std::byte> scaled = testing::pack(*codec_of("nvfp4", second), x);
    ASSERT_EQ(scaled.size(), packed.size() + 4);
    float scale;
    std::memcpy(&scale, scaled.data(), 4);
    EXPECT_EQ(scale, 12.0f / 2688.0f);
    EXPECT_EQ(byte(scaled[4]), 0x7e);  // 448
  }
}

TEST(Nvfp4, WithoutASecondScaleSmallBlocksVanishAndLargeOnesSaturate) {
  auto none = codec_of("nvfp4", "{}"), token = codec_of("nvfp4", R"({"second": "token"})");
  const at::Tensor small = at::full({1, 1, 16}, 0.005f), large = at::full({1, 1, 16}, 3000.0f);
  EXPECT_EQ(testing::round(*none, small).abs().max().item<float>(), 0.0f);
  EXPECT_EQ(testing::round(*none, large).max().item<float>(), 2688.0f);
  EXPECT_NEAR(testing::round(*token, small).max().item<float>(), 0.005f, 1e-9f);
  EXPECT_NEAR(testing::round(*token, large).max().item<float>(), 3000.0f, 1e-3f);
}

TEST(Nvfp4, TakesFourAndAHalfBits) {
  const CacheShape shape = testing::shape_of(at::empty({10, 3, 64}));
  auto bits = [&](const char* knobs) {
    return codec_of("nvfp4", knobs)->stored_bits(shape, testing::everything(shape));
  };
  EXPECT_EQ(bits("{}"), 1920 * 9 / 2);
  EXPECT_EQ(bits(R"({"second": "tensor"})"), 1920 * 9 / 2 + 32);
  EXPECT_EQ(bits(R"({"second": "token"})"), 1920 * 9 / 2 + 30 * 32);
}

}  // namespace kvcost
