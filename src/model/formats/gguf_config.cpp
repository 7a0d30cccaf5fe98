#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/model/formats/read_config.h"

namespace kvcost {
namespace {

template <class T>
T need(const Gguf& file, const std::string& key, const std::optional<T>& value) {
  if (!value) throw InputError(fmt::format("{}: '{}' is missing", file.origin(), key));
  return *value;
}

/// Keys of the same architecture name that other models use, and that would change the numbers.
void refuse_unsupported(const Gguf& file, const std::string& prefix) {
  auto refuse = [&](const std::string& key, std::string_view expected) {
    throw InputError(
        fmt::format("{}: '{}' is set, expected {} (not supported)", file.origin(), key, expected));
  };
  if (file.integer("split.count").value_or(1) > 1) {
    throw InputError(fmt::format("{}: one part of a split GGUF (split.count is {}), expected a single file",
                                 file.origin(), *file.integer("split.count")));
  }
  if (file.integer(prefix + "expert_count").value_or(0) > 0) refuse(prefix + "expert_count", "no experts");
  for (const char* name : {"attention.scale", "logit_scale", "embedding_scale", "residual_scale",
                           "attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping",
                           "final_logit_softcapping", "rope.scaling.attn_factor"}) {
    if (file.has(prefix + name)) refuse(prefix + name, "nothing");
  }
  if (!file.boolean(prefix + "attention.causal").value_or(true)) refuse(prefix + "attention.causal", "true");
}

void read_rope(const Gguf& file, const std::string& prefix, ModelConfig& model) {
  std::optional<double> theta = file.number(prefix + "rope.freq_base");
  // Writers of version 2 left out Llama's 10,000, which was not yet a setting.
  if (!theta && file.version() == 2 && model.architecture == "llama") theta = 10000.0;
  model.rope.theta = need(file, prefix + "rope.freq_base", theta);
  int64_t rotated = file.integer(prefix + "rope.dimension_count").value_or(model.head_dim);
  if (rotated != model.head_dim) {
    throw InputError(fmt::format("{}: '{}rope.dimension_count' is {}, expected the head dimension, {}",
                                 file.origin(), prefix, rotated, model.head_dim));
  }
  std::string type = file.string(prefix + "rope.scaling.type").value_or("none");
  double factor = 1;
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    if (auto found = file.number(prefix + key); found && *found != 0) factor = *found;
  }
  if (type != "none" && !(type == "linear" && factor == 1)) {
    throw InputError(fmt::format("{}: rotary scaling type '{}' is not supported, expected none",
                                 file.origin(), printable(type)));
  }
  if (factor != 1) {
    throw InputError(fmt::format("{}: linear rotary scaling by {} is not supported, expected none",
                                 file.origin(), factor));
  }
}

}  // namespace

ModelConfig gguf_config(const Gguf& file) {
  ModelConfig model;
  model.architecture = need(file, "general.architecture", file.string("general.architecture"));
  static const std::vector<std::string> kKnown{"llama", "qwen2", "qwen3"};
  if (std::find(kKnown.begin(), kKnown.end(), model.architecture) == kKnown.end()) {
    throw InputError(
        fmt::format("{}: architecture '{}' is not supported, expected one of llama, qwen2, qwen3",
                    file.origin(), printable(model.architecture)));
  }
  std::string prefix = model.architecture + ".";
  refuse_unsupported(file, prefix);
  auto integer = [&](const char* name) { return need(file, prefix + name, file.integer(prefix + name)); };
  model.layers = integer("block_count");
  model.hidden = integer("embedding_length");
  model.intermediate = integer("feed_forward_length");
  model.query_heads = integer("attention.head_count");
  model.kv_heads = file.integer(prefix + "attention.head_count_kv").value_or(model.query_heads);
  model.max_positions = integer("context_length");
  model.norm_eps = need(file, prefix + "attention.layer_norm_rms_epsilon",
                        file.number(prefix + "attention.layer_norm_rms_epsilon"));

  std::optional<int64_t> key_length = file.integer(prefix + "attention.key_length");
  if (!key_length) {
    if (model.query_heads < 1 || model.hidden % model.query_heads != 0) {
      throw InputError(fmt::format("{}: embedding_length {} is not a multiple of {} attention heads",
                                   file.origin(), model.hidden, model.query_heads));
    }
    key_length = model.hidden / model.query_heads;
  }
  model.head_dim = *key_length;
  int64_t value_length = file.integer(prefix + "attention.value_length").value_or(model.head_dim);
  if (value_length != model.head_dim) {
    throw InputError(fmt::format("{}: '{}attention.value_length' is {}, expected the key length, {}",
                                 file.origin(), prefix, value_length, model.head_dim));
  }
  read_rope(file, prefix, model);
  model.sliding_window = file.integer(prefix + "attention.sliding_window");
  if (model.sliding_window == 0) model.sliding_window.reset();

  const GgufTensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr) {
    throw InputError(fmt::format("{}: tensor 'token_embd.weight' is missing", file.origin()));
  }
  model.vocabulary = embedding->shape[0];
  if (auto stated = file.integer(prefix + "vocab_size"); stated && *stated != model.vocabulary) {
    throw InputError(fmt::format("{}: 'token_embd.weight' has {} rows, but '{}vocab_size' is {}",
                                 file.origin(), model.vocabulary, prefix, *stated));
  }
  model.tied_output = file.find("output.weight") == nullptr;
  model.qkv_bias = model.architecture == "qwen2" || file.find("blk.0.attn_q.bias") != nullptr;
  model.qk_norm = model.architecture == "qwen3";
  check_config(model, file.origin());
  return model;
}

}  // namespace kvcost
