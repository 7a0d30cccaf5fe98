// The inner loops of a cache that lives from token to token; compiled for several processors.
#pragma once
#include <cstdint>

namespace kvcost {

/// Numbers that a row of values is padded to a multiple of.
inline constexpr int64_t kValueBlock = 16;

/// Rotate-half RoPE of keys in columns: out[:, s] = keys[:, s] turned by the angles in column s, for s in
/// [first, last). keys and out [2 * half, stride]; cos, sin [half, angle_stride].
void turn_columns(const float* keys, int64_t half, int64_t stride, const float* cos, const float* sin,
                  int64_t angle_stride, int64_t first, int64_t last, float* out);

/// out[r] = the sum over slots s of weights[r * stride + s] times row place[s] of values. values
/// [.., width], out [rows, width]; width is a multiple of kValueBlock.
void weigh(const float* weights, int rows, int64_t stride, int64_t slots, const float* values,
           const int32_t* place, int64_t width, float* out);

}  // namespace kvcost
