#include "src/model/softmax.h"

#include "src/model/simd.h"

namespace kvcost {

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

}  // namespace kvcost
