#pragma once
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace kvcost {

/// Of one layer's keys before RoPE in one window (docs/definitions.md).
struct KeyStatistics {
  int layer = 0;
  double largest_bias = 0;  ///< max |bias|; 0 where there is none
  double span = 0;          ///< mean over tokens and heads of max - min over a token's channels
  double span_without_bias = 0;
  double variation = 0;  ///< mean over channels of the sd over tokens (ddof 1)
};

/// keys [tokens, kv_heads, head_dim] fp32 before RoPE, at least two tokens; bias [kv_heads, head_dim] or
/// undefined.
KeyStatistics key_statistics(int layer, const at::Tensor& keys, const at::Tensor& bias);

/// The article's sentence, one line a layer: "layer  0 keys: largest bias 130.0; a token's 64 channels ...".
std::string key_statistics_lines(std::span<const KeyStatistics> layers, int64_t channels);

/// A list of {layer, largest_bias, span, span_without_bias, variation}, as result files hold it.
nlohmann::ordered_json key_statistics_to_json(std::span<const KeyStatistics> layers);
/// InputError naming the path; null gives none.
std::vector<KeyStatistics> key_statistics_from_json(const nlohmann::json& list, const std::string& path);

}  // namespace kvcost
