// model/: a plain decoder and the files it comes from. Knows nothing of caches, policies or experiments.
// formats/ holds what parses untrusted files; it builds without LibTorch, so that fuzzers can.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace kvcost {

/// Rotary position embedding: inverse frequency j = theta^(-2j/head_dim), then the scaling.
struct RopeConfig {
  double theta = 0;
  /// "default" or "llama3" (the formula of Llama 3.1: low frequencies divided by `factor`).
  std::string type = "default";
  double factor = 1, low_freq_factor = 1, high_freq_factor = 1;
  int64_t original_max_positions = 0;
};

struct ModelConfig {
  /// "llama", "mistral", "qwen2" or "qwen3".
  std::string architecture;
  int64_t layers = 0, hidden = 0, intermediate = 0;
  int64_t query_heads = 0, kv_heads = 0, head_dim = 0;
  /// Rows of the embedding and output matrices, padding rows included.
  int64_t vocabulary = 0;
  int64_t max_positions = 0;
  double norm_eps = 0;
  RopeConfig rope;
  bool qkv_bias = false;
  /// RMSNorm over head_dim of queries and keys before RoPE (qwen3).
  bool qk_norm = false;
  /// The output matrix is the embedding matrix.
  bool tied_output = false;
  /// The model's own attention window, if it was trained with one (mistral v0.1): longer windows are refused.
  std::optional<int64_t> sliding_window;

  /// Numbers (not bytes) one token puts in the cache of one layer: keys and values.
  int64_t cached_numbers_per_layer() const { return 2 * kv_heads * head_dim; }
  int64_t parameters() const;
};

}  // namespace kvcost
