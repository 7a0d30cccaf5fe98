// Row-wise arithmetic between the matrix products; compiled for several processors.
#pragma once
#include <cstdint>

namespace kvcost {

/// out = x / sqrt(mean(x^2) + eps) * weight, over [size]; x may be out. False if x is not finite.
bool rms_norm(const float* x, const float* weight, float eps, int64_t size, float* out);

/// out = silu(gate) * up, over [size].
void silu_mul(const float* gate, const float* up, int64_t size, float* out);

/// Rotate-half RoPE of one head, [2 * half]; cos, sin [half]; x may be out.
void rotate_head(const float* x, const float* cos, const float* sin, int64_t half, float* out);

/// x += y, over [size].
void add(float* x, const float* y, int64_t size);

}  // namespace kvcost
