#include "src/model/elementwise.h"

#include <cmath>

#include "src/model/simd.h"

namespace kvcost {

KVCOST_MULTIARCH bool rms_norm(const float* x, const float* weight, float eps, int64_t size, float* out) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t c = 0; c < size; ++c) squares += x[c] * x[c];
  float inverse = 1.0f / std::sqrt(squares / static_cast<float>(size) + eps);
  for (int64_t c = 0; c < size; ++c) out[c] = x[c] * inverse * weight[c];
  return squares <= 3.4028235e38f;  // false for NaN too
}

KVCOST_MULTIARCH void silu_mul(const float* gate, const float* up, int64_t size, float* out) {
  for (int64_t c = 0; c < size; ++c) {
    float x = gate[c];
    // The cut keeps 2^ finite; beyond it silu is x or 0 to within float anyway.
    float exponent = -1.44269504f * x;
    exponent = exponent > 126.0f ? 126.0f : exponent;
    out[c] = x / (1.0f + exp2_approx(exponent)) * up[c];
  }
}

KVCOST_MULTIARCH void rotate_head(const float* x, const float* cos, const float* sin, int64_t half,
                                  float* out) {
  for (int64_t c = 0; c < half; ++c) {
    float low = x[c], high = x[c + half];
    out[c] = low * cos[c] - high * sin[c];
    out[c + half] = high * cos[c] + low * sin[c];
  }
}

KVCOST_MULTIARCH void add(float* x, const float* y, int64_t size) {
  for (int64_t c = 0; c < size; ++c) x[c] += y[c];
}

}  // namespace kvcost
