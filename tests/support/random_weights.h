#pragma once
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <functional>
#include <string>
#include <vector>

#include "src/model/formats/weight_source.h"

namespace kvcost {

/// Random weights of a tiny model, made as they are asked for; the same name always gives the same tensor.
class RandomWeights : public WeightSource {
 public:
  explicit RandomWeights(ModelConfig config) : config_(std::move(config)) {}
  const ModelConfig& config() const override { return config_; }
  const std::vector<std::string>& names() const override { return names_; }
  std::optional<TensorInfo> find(std::string_view) const override { return std::nullopt; }
  void read(std::string_view name, float* out) const override {
    at::Tensor t = tensor(std::string(name));
    std::copy_n(t.const_data_ptr<float>(), t.numel(), out);
  }
  void release_pages() const override {}
  std::string hash() const override { return "random"; }
  uint64_t file_bytes() const override { return 0; }

  at::Tensor tensor(const std::string& name) const {
    const ModelConfig& c = config_;
    auto ends = [&](const char* end) { return name.ends_with(end); };
    const int64_t q = c.query_heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    std::vector<int64_t> shape;
    if (ends("embed_tokens.weight") || ends("lm_head.weight")) shape = {c.vocabulary, c.hidden};
    if (ends("layernorm.weight") || name == "model.norm.weight") shape = {c.hidden};
    if (ends("q_norm.weight") || ends("k_norm.weight")) shape = {c.head_dim};
    if (ends("q_proj.weight")) shape = {q, c.hidden};
    if (ends("k_proj.weight") || ends("v_proj.weight")) shape = {kv, c.hidden};
    if (ends("q_proj.bias")) shape = {q};
    if (ends("k_proj.bias") || ends("v_proj.bias")) shape = {kv};
    if (ends("o_proj.weight")) shape = {c.hidden, q};
    if (ends("gate_proj.weight") || ends("up_proj.weight")) shape = {c.intermediate, c.hidden};
    if (ends("down_proj.weight")) shape = {c.hidden, c.intermediate};
    at::Generator generator = at::detail::createCPUGenerator(std::hash<std::string>{}(name));
    at::Tensor t = at::randn(shape, generator);
    return shape.size() == 1 ? 1 + 0.2 * t : t * (1.2 / std::sqrt(double(shape.back())));
  }

 private:
  ModelConfig config_;
  std::vector<std::string> names_;
};

/// Three layers, six query heads over two KV heads.
inline ModelConfig tiny_config(const std::string& architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.layers = 3, c.hidden = 24, c.intermediate = 40, c.vocabulary = 50, c.max_positions = 512;
  c.query_heads = 6, c.kv_heads = 2, c.head_dim = architecture == "qwen3" ? 8 : 4;
  c.norm_eps = 1e-5, c.rope.theta = 10000;
  c.qkv_bias = architecture == "qwen2", c.qk_norm = architecture == "qwen3";
  c.tied_output = architecture != "llama";
  if (architecture == "llama") {
    c.rope.type = "llama3", c.rope.factor = 8, c.rope.low_freq_factor = 1, c.rope.high_freq_factor = 4;
    c.rope.original_max_positions = 16;
  }
  return c;
}

}  // namespace kvcost
