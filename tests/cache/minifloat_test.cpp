#include "src/cache/minifloat.h"

#include <gtest/gtest.h>

#include "src/base/splitmix.h"
#include "tests/support/codecs.h"

namespace kvcost {
namespace {

/// nearest() against a search through all numbers of the format: at each, at each middle between two, a bit
/// to either side of both, and at random bits.
template <class Format>
void expect_nearest(const std::vector<double>& sizes) {
  auto check = [&](float x) {
    for (float y : {x, -x}) {
      const float got = nearest<Format>(y);
      ASSERT_EQ(got, testing::nearest_of(sizes, y)) << y;
      ASSERT_EQ(std::signbit(got), std::signbit(y)) << y;
      const float back = decode<Format>(encode<Format>(got));
      ASSERT_EQ(back, got) << y;
      ASSERT_EQ(std::signbit(back), std::signbit(y)) << y;
    }
  };
  for (size_t code = 0; code < sizes.size(); ++code) {
    for (double x : {sizes[code], code > 0 ? (sizes[code] + sizes[code - 1]) / 2 : 0.0}) {
      const auto exact = static_cast<float>(x);
      ASSERT_EQ(exact, x);
      check(exact);
      check(std::nextafter(exact, INFINITY));
      if (exact > 0) check(std::nextafter(exact, 0.0f));
    }
  }
  uint64_t random = 1;
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(next_random(random)));
    if (std::isfinite(x)) check(std::fabs(x));
    check(static_cast<float>(std::ldexp(next_random(random) >> 40, -24) * sizes.back()));
  }
  check(std::numeric_limits<float>::max());
  for (float x : {INFINITY, -INFINITY, NAN}) EXPECT_TRUE(std::isnan(nearest<Format>(x)));
}

template <class Format>
void expect_codes(const std::vector<double>& sizes) {
  for (uint32_t code = 0; code <= Format::top; ++code) {
    EXPECT_EQ(decode<Format>(static_cast<uint8_t>(code)), sizes[code]);
    EXPECT_EQ(encode<Format>(static_cast<float>(sizes[code])), code);
    const uint32_t negative = code | 1u << (Format::bits - 1);
    EXPECT_EQ(decode<Format>(static_cast<uint8_t>(negative)), -sizes[code]);
    EXPECT_EQ(encode<Format>(-static_cast<float>(sizes[code])), negative);
  }
  EXPECT_EQ(sizes.back(), Format::largest);
}

template <class Format, class Theirs>
void expect_as_aten() {
  for (int code = 0; code < 256; ++code) {
    const auto theirs = static_cast<float>(Theirs(static_cast<uint8_t>(code), Theirs::from_bits()));
    const float ours = decode<Format>(static_cast<uint8_t>(code));
    EXPECT_TRUE(std::bit_cast<uint32_t>(ours) == std::bit_cast<uint32_t>(theirs) ||
                (std::isnan(ours) && std::isnan(theirs)))
        << code;
  }
  uint64_t random = 2;
  for (int i = 0; i < 100000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(next_random(random)));
    if (!(std::fabs(x) <= Format::largest)) continue;  // ATen does not saturate
    ASSERT_EQ(encode<Format>(nearest<Format>(x)), Theirs(x).x) << x;
  }
}

}  // namespace

TEST(Minifloat, RoundsToTheNearest) {
  expect_nearest<E4m3>(testing::e4m3_sizes());
  expect_nearest<E5m2>(testing::e5m2_sizes());
  expect_nearest<E2m1>(testing::e2m1_sizes());
}

TEST(Minifloat, EveryCode) {
  expect_codes<E4m3>(testing::e4m3_sizes());
  expect_codes<E5m2>(testing::e5m2_sizes());
  expect_codes<E2m1>(testing::e2m1_sizes());
}

TEST(Minifloat, IsWhatAtenHas) {
  expect_as_aten<E4m3, c10::Float8_e4m3fn>();
  expect_as_aten<E5m2, c10::Float8_e5m2>();
}

TEST(Minifloat, LargestShowsWhatIsNotFinite) {
  EXPECT_EQ(largest_of(std::vector<float>{1, -3, 2, -0.0f}.data(), 4), 3);
  EXPECT_EQ(largest_of(std::vector<float>{-0.0f}.data(), 1), 0);
  EXPECT_EQ(largest_of(std::vector<float>{1, -INFINITY, 2}.data(), 3), INFINITY);
  EXPECT_TRUE(std::isnan(largest_of(std::vector<float>{1, -NAN, INFINITY}.data(), 3)));
}

}  // namespace kvcost
