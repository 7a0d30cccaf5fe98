#include "src/model/softmax.h"

#include "src/model/simd.h"

namespace kvcost {
namespace {

using Vector = float __attribute__((vector_size(32), aligned(4), may_alias));

/// Rows x one block of slots, in registers.
template <int Rows>
KVCOST_INLINE void score_block(const float* q, int head_dim, const float* keys, int64_t stride, float* out) {
  constexpr int kVectors = kScoreBlock / 8;
  Vector sum[Rows][kVectors] = {};
  for (int c = 0; c < head_dim; ++c) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector k = *reinterpret_cast<const Vector*>(keys + c * stride + 8 * v);
      for (int r = 0; r < Rows; ++r) sum[r][v] += q[int64_t(r) * head_dim + c] * k;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(out + r * stride + 8 * v) = sum[r][v];
  }
}

}  // namespace

KVCOST_MULTIARCH void score(const float* q, int rows, int head_dim, const float* keys, int64_t stride,
                            int slots, float* out) {
  for (int s = 0; s < slots; s += kScoreBlock) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
      score_block<4>(q + int64_t(r) * head_dim, head_dim, keys + s, stride, out + r * stride + s);
    for (; r + 3 <= rows; r += 3)
      score_block<3>(q + int64_t(r) * head_dim, head_dim, keys + s, stride, out + r * stride + s);
    for (; r < rows; ++r)
      score_block<1>(q + int64_t(r) * head_dim, head_dim, keys + s, stride, out + r * stride + s);
  }
}

KVCOST_MULTIARCH void hide(float* scores, const int32_t* position, const int32_t* evicted_at, int count,
                           int i) {
  for (int c = 0; c < count; ++c) {
    bool seen = (position[c] <= i) & (i < evicted_at[c]);
    scores[c] = seen ? scores[c] : kHiddenScore;
  }
}

KVCOST_MULTIARCH void take_rounded(float* scores, const float* rounded, const int32_t* rounded_at, int count,
                                   int i) {
  for (int c = 0; c < count; ++c) scores[c] = i < rounded_at[c] ? scores[c] : rounded[c];
}

KVCOST_MULTIARCH void split_weights(float* weights, float* rounded, const int32_t* rounded_at, int count,
                                    int i) {
  for (int c = 0; c < count; ++c) {
    float w = weights[c];
    bool exact = i < rounded_at[c];
    weights[c] = exact ? w : 0.0f;
    rounded[c] = exact ? 0.0f : w;
  }
}

KVCOST_MULTIARCH void softmax_step(float* scores, int count, float* running_max, float* running_sum,
                                   float* out, int head_dim) {
  float top = *running_max;
#pragma omp simd reduction(max : top)
  for (int c = 0; c < count; ++c) top = scores[c] > top ? scores[c] : top;
  float shrink = exp2_approx(*running_max - top);
  if (shrink != 1.0f) {
    for (int x = 0; x < head_dim; ++x) out[x] *= shrink;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int c = 0; c < count; ++c) {
    float w = exp2_approx(scores[c] - top);
    scores[c] = w;
    sum += w;
  }
  *running_max = top;
  *running_sum = *running_sum * shrink + sum;
}

KVCOST_MULTIARCH void softmax(float* scores, int count) {
  float most = kHiddenScore, sum = 0;
  softmax_step(scores, count, &most, &sum, nullptr, 0);
  const float inverse = 1.0f / sum;
  for (int c = 0; c < count; ++c) scores[c] *= inverse;
}

}  // namespace kvcost
