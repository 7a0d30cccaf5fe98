#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "src/model/simd.h"

namespace kvcost {

/// Small floats: a sign, an exponent and `mantissa` bits, subnormal below 2^least_exponent. `top` is the code
/// of `largest`; codes above it, sign apart, are NaN, or first an infinity where the format has one. E4M3 and
/// E5M2: OCP 8-bit Floating Point Specification 1.0; E2M1: OCP Microscaling Formats 1.0.
struct E4m3 {
  static constexpr int bits = 8, mantissa = 3, least_exponent = -6;
  static constexpr float largest = 448;
  static constexpr uint32_t top = 0x7e;
  static constexpr bool has_infinity = false;
};
struct E5m2 {
  static constexpr int bits = 8, mantissa = 2, least_exponent = -14;
  static constexpr float largest = 57344;
  static constexpr uint32_t top = 0x7b;
  static constexpr bool has_infinity = true;
};
struct E2m1 {
  static constexpr int bits = 4, mantissa = 1, least_exponent = 0;
  static constexpr float largest = 6;
  static constexpr uint32_t top = 7;
  static constexpr bool has_infinity = false;
};

/// The number of Format nearest to x, halves to even, saturating; -0 stays. An infinity or a NaN gives a NaN,
/// so that saturating cannot hide it. Vectorizes.
template <class Format>
KVCOST_INLINE float nearest(float x) {
  float size = std::fabs(x);
  size = (size > Format::largest ? Format::largest : size) + (x - x);
  // Adding 2^23 units in the last place of x's binade, and taking them off again, rounds to whole units.
  constexpr int32_t kLeast = (127 + Format::least_exponent) << 23;
  int32_t binade = std::bit_cast<int32_t>(size) & 0x7f800000;
  binade = binade > kLeast ? binade : kLeast;
  const float shift = std::bit_cast<float>(static_cast<uint32_t>(binade) + ((23u - Format::mantissa) << 23));
  return std::copysign((size + shift) - shift, x);
}

/// The code of a number that nearest() gave; a NaN has all bits set but the sign (E2M1 has no NaN: that is
/// 6).
template <class Format>
uint8_t encode(float x) {
  constexpr uint32_t kSign = 1u << (Format::bits - 1);
  const uint32_t sign = std::signbit(x) ? kSign : 0;
  if (x != x) return static_cast<uint8_t>(sign | (kSign - 1));
  const float size = std::fabs(x);
  if (size < std::ldexp(1.0f, Format::least_exponent)) {
    return static_cast<uint8_t>(
        sign | static_cast<uint32_t>(std::ldexp(size, Format::mantissa - Format::least_exponent)));
  }
  const uint32_t exponent_and_mantissa = std::bit_cast<uint32_t>(size) >> (23 - Format::mantissa);
  return static_cast<uint8_t>(
      sign | (exponent_and_mantissa - ((126u + Format::least_exponent) << Format::mantissa)));
}

/// Any code, those encode() never gives too.
template <class Format>
float decode(uint8_t code) {
  constexpr uint32_t kSign = 1u << (Format::bits - 1);
  const uint32_t size = code & (kSign - 1), exponent = size >> Format::mantissa;
  const auto fraction = static_cast<float>(size & ((1u << Format::mantissa) - 1));
  float value;
  if (size > Format::top) {
    value = Format::has_infinity && size == Format::top + 1 ? std::numeric_limits<float>::infinity()
                                                            : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, Format::least_exponent - Format::mantissa);
  } else {
    value = std::ldexp(fraction + (1 << Format::mantissa),
                       static_cast<int>(exponent) - 1 + Format::least_exponent - Format::mantissa);
  }
  return (code & kSign) != 0 ? -value : value;
}

/// Four-bit codes, two to a byte, the first one in the low half. `out` starts as zeros.
inline void put_nibble(std::byte* out, int64_t i, uint8_t code) {
  out[i / 2] |= static_cast<std::byte>(code << (i % 2 * 4));
}
inline uint8_t get_nibble(const std::byte* in, int64_t i) {
  return std::to_integer<uint8_t>(in[i / 2] >> (i % 2 * 4)) & 15;
}

/// The largest |x| of n numbers, n > 0; an infinity or a NaN if one is there. Vectorizes: as integers, sizes
/// compare as their numbers do, and NaNs are above all.
KVCOST_INLINE float largest_of(const float* x, int64_t n) {
  int32_t largest = 0;
#pragma omp simd reduction(max : largest)  // or short blocks are unrolled, one number at a time
  for (int64_t i = 0; i < n; ++i) {
    const int32_t size = std::bit_cast<int32_t>(x[i]) & 0x7fffffff;
    largest = size > largest ? size : largest;
  }
  return std::bit_cast<float>(largest);
}

/// visit(first number, how many) for each block of `block` numbers of n rows of d; a row's last may be short.
/// `visit` must be always_inline in a loop compiled for several processors.
template <int64_t block, class Visit>
KVCOST_INLINE void for_each_block(int64_t n, int64_t d, const Visit& visit) {
  for (int64_t row = 0; row < n * d; row += d) {
    int64_t c = 0;
    for (; c + block <= d; c += block) visit(row + c, block);
    if (c < d) visit(row + c, d - c);
  }
}

}  // namespace kvcost
