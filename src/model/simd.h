#pragma once
#include <cstdint>
#include <cstring>

/// Compiles a hot loop for several instruction sets and picks one at run time. Functions called from it must
/// be inlined, or they stay at the baseline.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define KVCOST_MULTIARCH __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KVCOST_MULTIARCH
#endif
#define KVCOST_INLINE __attribute__((always_inline)) inline

namespace kvcost {

/// 2^x to 2 ulp; 0 below -80, far under what a float sum next to 1 can hold. Written so that compilers
/// vectorize it: no branch, no library call.
KVCOST_INLINE float exp2_approx(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  float clamped = x < -80.0f ? -80.0f : x;
  float shifted = clamped + kMagic;
  float f = clamped - (shifted - kMagic);  // in [-0.5, 0.5]
  float p = 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  int32_t bits, exponent;
  std::memcpy(&bits, &p, 4);
  std::memcpy(&exponent, &shifted, 4);
  bits += exponent << 23;  // the magic's own bits are shifted out
  std::memcpy(&p, &bits, 4);
  return x < -80.0f ? 0.0f : p;
}

}  // namespace kvcost
