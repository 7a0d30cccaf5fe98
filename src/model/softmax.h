// The inner loops of attention over one query's scores of one chunk of keys; compiled for several processors.
#pragma once
#include <cstdint>

namespace kvcost {

/// The score of a token that a query does not see. Finite: a row with nothing visible yet needs no special
/// case.
inline constexpr float kHiddenScore = -1e30f;

/// Slots that `score` takes at a time.
inline constexpr int kScoreBlock = 16;

/// Scores of `rows` query heads that read one KV head: out[r * stride + s] = q[r] . column s of keys, for
/// s < slots rounded up to a whole block. q [rows, head_dim], keys [head_dim, stride], out [rows, stride].
void score(const float* q, int rows, int head_dim, const float* keys, int64_t stride, int slots, float* out);

/// Hides from query `i` what is later than it or gone.
void hide(float* scores, const int32_t* position, const int32_t* evicted_at, int count, int i);

/// Takes the score against the rounded key where query `i` reads it rounded.
void take_rounded(float* scores, const float* rounded, const int32_t* rounded_at, int count, int i);

/// Moves the weights of tokens that query `i` reads rounded from `weights` to `rounded`; zeros stay behind.
void split_weights(float* weights, float* rounded, const int32_t* rounded_at, int count, int i);

/// scores -> 2^(scores - running maximum) in place; maximum, sum and the output row [head_dim] are carried
/// along.
void softmax_step(float* scores, int count, float* running_max, float* running_sum, float* out, int head_dim);

/// Scores in units of log 2 -> weights, in place.
void softmax(float* scores, int count);

}  // namespace kvcost
