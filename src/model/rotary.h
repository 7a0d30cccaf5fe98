#pragma once
#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "src/model/formats/model_config.h"

namespace kvcost {

/// cos and sin, [count, head_dim / 2] each, of positions first .. first + count - 1, by the config's scaling;
/// `divisors` [head_dim / 2] divide the frequencies further (empty: none). In fp32 throughout, as the models
/// were trained.
std::pair<at::Tensor, at::Tensor> rotary_table(const ModelConfig& config, const std::vector<float>& divisors,
                                               int64_t first, int64_t count);

}  // namespace kvcost
