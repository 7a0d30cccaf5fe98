#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codecs.h"

namespace kvcost {
namespace {

using testing::codec_of;

/// By the specification, in double: the exponent from the largest number, then a search for every element.
at::Tensor by_search(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const int64_t d = x.size(2);
  for (int64_t row = 0; row < x.numel(); row += d) {
    for (int64_t begin = 0; begin < d; begin += 32) {
      const int64_t end = std::min(begin + 32, d);
      double largest = 0;
      for (int64_t c = begin; c < end; ++c) {
        largest = std::max(largest, std::abs(double(x.const_data_ptr<float>()[row + c])));
      }
      const int exponent = largest == 0 ? -127 : std::max(-127, std::ilogb(largest) - 2);
      for (int64_t c = row + begin; c < row + end; ++c) {
        const double element = testing::nearest_of(
            testing::e2m1_sizes(), std::ldexp(double(x.const_data_ptr<float>()[c]), -exponent));
        out.data_ptr<float>()[c] = static_cast<float>(std::ldexp(element, exponent));
      }
    }
  }
  return out;
}

}  // namespace

TEST(Mxfp4, EqualsASearchForTheNearest) {
  auto codec = codec_of("mxfp4", "{}");
  EXPECT_FALSE(codec->looks_ahead());
  for (const at::Tensor& x :
       {testing::hard_numbers(2, 64, 1), testing::hard_numbers(3, 40, 2), testing::hard_numbers(1, 7, 3),
        testing::gaussian({3, 1, 33}, 4), at::full({1, 2, 32}, std::numeric_limits<float>::max()),
        at::full({1, 1, 1}, std::numeric_limits<float>::denorm_min()), at::empty({0, 2, 32})}) {
    EXPECT_TRUE(testing::same_numbers(testing::round(*codec, x), by_search(x))) << x.sizes();
    testing::expect_packs(*codec, x, fmt::format("head_dim {}", x.size(2)));
  }
}

TEST(Mxfp4, PacksScalesThenElements) {
  // Two blocks, the second of one channel: largest 7 -> 2^0, where 7 saturates at 6; 0.75 -> 2^-3.
  at::Tensor x = at::zeros({1, 1, 33});
  x[0][0][0] = 7, x[0][0][1] = -0.75, x[0][0][2] = 2.5, x[0][0][3] = 3.5, x[0][0][31] = -0.25,
  x[0][0][32] = 0.75;
  auto codec = codec_of("mxfp4", "{}");
  const std::vector<std::byte> packed = testing::pack(*codec, x);
  ASSERT_EQ(packed.size(), 2u + 17u);
  auto byte = [&](size_t i) { return std::to_integer<int>(packed[i]); };
  EXPECT_EQ(byte(0), 127);
  EXPECT_EQ(byte(1), 124);
  EXPECT_EQ(byte(2), 0x7 | 0xa << 4);       // 6, -1
  EXPECT_EQ(byte(3), 0x4 | 0x6 << 4);       // 2, 4: halves to even
  EXPECT_EQ(byte(2 + 15), 0x0 | 0x8 << 4);  // 0, -0
  EXPECT_EQ(byte(2 + 16), 0x7);             // 0.75 / 2^-3 = 6
}

TEST(Mxfp4, ABlockWithANaNIsNaNAndNoOther) {
  at::Tensor x = testing::gaussian({2, 1, 64}, 5);
  x[1][0][40] = NAN;
  const at::Tensor out = testing::round(*codec_of("mxfp4", "{}"), x);
  EXPECT_TRUE(at::isfinite(out[0]).all().item<bool>());
  EXPECT_TRUE(at::isfinite(out[1][0].narrow(0, 0, 32)).all().item<bool>());
  EXPECT_TRUE(at::isnan(out[1][0].narrow(0, 32, 32)).all().item<bool>());
}

TEST(Mxfp4, UnpacksAnyBytes) {
  auto codec = codec_of("mxfp4", "{}");
  const CacheShape shape = testing::shape_of(at::empty({256, 1, 32}));
  std::vector<std::byte> packed(256 * 17);
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = std::byte(i / 17);
  const at::Tensor out = codec->unpack(packed, shape, {});
  for (int scale = 0; scale < 255; ++scale) {
    const double element = testing::e2m1_sizes()[scale & 7] * ((scale & 8) != 0 ? -1 : 1);
    ASSERT_EQ(out[scale][0][0].item<float>(), static_cast<float>(std::ldexp(element, scale - 127))) << scale;
  }
  EXPECT_TRUE(at::isnan(out[255]).all().item<bool>());
}

TEST(Mxfp4, TakesFourAndAQuarterBits) {
  const CacheShape shape = testing::shape_of(at::empty({10, 3, 64}));
  EXPECT_EQ(codec_of("mxfp4", "{}")->stored_bits(shape, testing::everything(shape)), 1920 * 17 / 4);
}

TEST(Mxfp4, HasNoKnobs) {
  EXPECT_EQ(testing::codec_error("mxfp4", R"({"block": 16})").rfind("rows[0].keys.block: unknown setting", 0),
            0u);
}

}  // namespace kvcost
