#include "src/model/rotary.h"

#include <cmath>
#include <numbers>

#include "src/base/error.h"
#include "src/model/attention.h"
#include "src/model/elementwise.h"

namespace kvcost {
namespace {

/// Llama 3.1: wavelengths beyond the original context are stretched by `factor`, short ones kept, a ramp
/// between.
float llama3_frequency(float frequency, const RopeConfig& rope) {
  auto original = static_cast<float>(rope.original_max_positions);
  auto low = static_cast<float>(rope.low_freq_factor), high = static_cast<float>(rope.high_freq_factor);
  float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / static_cast<float>(rope.factor);
  float smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / static_cast<float>(rope.factor) + smooth * frequency;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> rotary_table(const ModelConfig& config, const std::vector<float>& divisors,
                                               int64_t first, int64_t count) {
  const int64_t half = config.head_dim / 2;
  at::Tensor cos = at::empty({count, half}), sin = at::empty({count, half});
  auto* cos_out = cos.mutable_data_ptr<float>();
  auto* sin_out = sin.mutable_data_ptr<float>();
  if (!divisors.empty() && static_cast<int64_t>(divisors.size()) != half) {
    throw InputError(fmt::format("rotary divisors: found {}, expected {}", divisors.size(), half));
  }
  for (int64_t c = 0; c < half; ++c) {
    float exponent = static_cast<float>(2 * c) / static_cast<float>(config.head_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(config.rope.theta), exponent);
    if (config.rope.type == "llama3") frequency = llama3_frequency(frequency, config.rope);
    if (!divisors.empty()) frequency /= divisors[c];
    for (int64_t t = 0; t < count; ++t) {
      float angle = static_cast<float>(first + t) * frequency;
      cos_out[t * half + c] = std::cos(angle);
      sin_out[t * half + c] = std::sin(angle);
    }
  }
  return {cos, sin};
}

void rotate(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t heads = x.size(1), head_dim = x.size(2), half = head_dim / 2;
  auto* data = x.mutable_data_ptr<float>();
  const auto *c = cos.const_data_ptr<float>(), *s = sin.const_data_ptr<float>();
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      float* head = data + (t * heads + h) * head_dim;
      rotate_head(head, c + t * half, s + t * half, half, head);
    }
  }
}

}  // namespace kvcost
