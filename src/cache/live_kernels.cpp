#include "src/cache/live_kernels.h"

#include "src/model/simd.h"

namespace kvcost {
namespace {

using Vector = float __attribute__((vector_size(32), aligned(4), may_alias));

/// Rows x one block of channels, in registers.
template <int Rows>
KVCOST_INLINE void weigh_block(const float* weights, int64_t stride, int64_t slots, const float* values,
                               const int32_t* place, int64_t width, float* out) {
  constexpr int kVectors = kValueBlock / 8;
  Vector sum[Rows][kVectors] = {};
  for (int64_t s = 0; s < slots; ++s) {
    const float* row = values + place[s] * width;
    for (int v = 0; v < kVectors; ++v) {
      const Vector value = *reinterpret_cast<const Vector*>(row + 8 * v);
      for (int r = 0; r < Rows; ++r) sum[r][v] += weights[r * stride + s] * value;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(out + r * width + 8 * v) = sum[r][v];
  }
}

}  // namespace

KVCOST_MULTIARCH void turn_columns(const float* keys, int64_t half, int64_t stride, const float* cos,
                                   const float* sin, int64_t angle_stride, int64_t first, int64_t last,
                                   float* out) {
  for (int64_t c = 0; c < half; ++c) {
    const float* __restrict low = keys + c * stride;
    const float* __restrict high = keys + (c + half) * stride;
    const float* __restrict x = cos + c * angle_stride;
    const float* __restrict y = sin + c * angle_stride;
    float* __restrict out_low = out + c * stride;
    float* __restrict out_high = out + (c + half) * stride;
    for (int64_t s = first; s < last; ++s) {
      out_low[s] = low[s] * x[s] - high[s] * y[s];
      out_high[s] = high[s] * x[s] + low[s] * y[s];
    }
  }
}

KVCOST_MULTIARCH void weigh(const float* weights, int rows, int64_t stride, int64_t slots,
                            const float* values, const int32_t* place, int64_t width, float* out) {
  for (int64_t c = 0; c < width; c += kValueBlock) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
      weigh_block<4>(weights + r * stride, stride, slots, values + c, place, width, out + r * width + c);
    for (; r + 3 <= rows; r += 3)
      weigh_block<3>(weights + r * stride, stride, slots, values + c, place, width, out + r * width + c);
    for (; r < rows; ++r)
      weigh_block<1>(weights + r * stride, stride, slots, values + c, place, width, out + r * width + c);
  }
}

}  // namespace kvcost
