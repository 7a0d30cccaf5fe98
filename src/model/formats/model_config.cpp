#include "src/model/formats/model_config.h"

#include <fmt/format.h>

#include <cmath>

#include "src/base/error.h"
#include "src/model/formats/read_config.h"

namespace kvcost {

int64_t ModelConfig::parameters() const {
  int64_t total = 0;
  for (const ExpectedTensor& tensor : expected_tensors(*this)) {
    int64_t numbers = 1;
    for (int64_t size : tensor.shape) numbers *= size;
    total += numbers;
  }
  return total;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> list;
  int64_t queries = config.query_heads * config.head_dim, keys = config.kv_heads * config.head_dim;
  list.push_back({"model.embed_tokens.weight", {config.vocabulary, config.hidden}});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      list.push_back({fmt::format("model.layers.{}.{}", layer, name), std::move(shape)});
    };
    add("input_layernorm.weight", {config.hidden});
    for (auto [name, rows] : {std::pair("q", queries), {"k", keys}, {"v", keys}}) {
      add(fmt::format("self_attn.{}_proj.weight", name), {rows, config.hidden});
      if (config.qkv_bias) add(fmt::format("self_attn.{}_proj.bias", name), {rows});
    }
    if (config.qk_norm) {
      add("self_attn.q_norm.weight", {config.head_dim});
      add("self_attn.k_norm.weight", {config.head_dim});
    }
    add("self_attn.o_proj.weight", {config.hidden, queries});
    add("post_attention_layernorm.weight", {config.hidden});
    add("mlp.gate_proj.weight", {config.intermediate, config.hidden});
    add("mlp.up_proj.weight", {config.intermediate, config.hidden});
    add("mlp.down_proj.weight", {config.hidden, config.intermediate});
  }
  list.push_back({"model.norm.weight", {config.hidden}});
  if (!config.tied_output) list.push_back({"lm_head.weight", {config.vocabulary, config.hidden}});
  return list;
}

void check_config(const ModelConfig& config, const std::string& origin) {
  // Bounds far above any real model, so that no product of sizes can overflow.
  struct Size {
    const char* name;
    int64_t value, most;
  };
  constexpr int64_t kLarge = int64_t{1} << 24;
  for (const Size& size : {Size{"number of layers", config.layers, 4096},
                           {"hidden size", config.hidden, kLarge},
                           {"intermediate size", config.intermediate, kLarge},
                           {"number of attention heads", config.query_heads, 1 << 16},
                           {"number of key-value heads", config.kv_heads, 1 << 16},
                           {"head dimension", config.head_dim, 1 << 16},
                           {"vocabulary size", config.vocabulary, kLarge},
                           {"number of positions", config.max_positions, int64_t{1} << 40}}) {
    if (size.value < 1 || size.value > size.most) {
      throw InputError(
          fmt::format("{}: the {} is {}, expected 1 to {}", origin, size.name, size.value, size.most));
    }
  }
  if (config.query_heads % config.kv_heads != 0) {
    throw InputError(fmt::format("{}: {} attention heads are not a multiple of {} key-value heads", origin,
                                 config.query_heads, config.kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    throw InputError(
        fmt::format("{}: the head dimension is {}, expected an even number", origin, config.head_dim));
  }
  if (!(config.norm_eps > 0 && config.norm_eps < 1)) {
    throw InputError(
        fmt::format("{}: the RMSNorm epsilon is {}, expected between 0 and 1", origin, config.norm_eps));
  }
  const RopeConfig& rope = config.rope;
  if (!(rope.theta > 0) || !std::isfinite(rope.theta)) {
    throw InputError(
        fmt::format("{}: the rotary base is {}, expected a positive number", origin, rope.theta));
  }
  if (rope.type == "llama3") {
    if (!(rope.factor >= 1) || !(rope.low_freq_factor > 0) ||
        !(rope.high_freq_factor > rope.low_freq_factor) || !std::isfinite(rope.factor) ||
        !std::isfinite(rope.high_freq_factor) || rope.original_max_positions < 1) {
      throw InputError(fmt::format(
          "{}: llama3 rotary scaling needs factor >= 1, 0 < low_freq_factor < high_freq_factor and "
          "original_max_position_embeddings >= 1; found {}, {}, {}, {}",
          origin, rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_max_positions));
    }
  }
  if (config.sliding_window && *config.sliding_window < 1) {
    throw InputError(
        fmt::format("{}: the sliding window is {}, expected at least 1", origin, *config.sliding_window));
  }
}

}  // namespace kvcost
