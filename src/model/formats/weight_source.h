#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/formats/model_config.h"

namespace kvcost {

struct TensorInfo {
  /// Rows first: {out, in} for a matrix, {n} for a vector.
  std::vector<int64_t> shape;
  /// As stored: "F32", "BF16", "Q4_1"...
  std::string dtype;
  int64_t numbers() const;
};

/// A model on disk, whatever its format, memory-mapped, under Hugging Face names
/// ("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
/// "model.layers.0.mlp.gate_proj.weight", "model.norm.weight", "lm_head.weight"...) with queries and keys in
/// rotate-half order. Every tensor the config calls for exists with the shape it calls for: open_weights()
/// has checked.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const std::vector<std::string>& names() const = 0;
  /// nullopt if there is no such tensor.
  virtual std::optional<TensorInfo> find(std::string_view name) const = 0;
  /// Decodes the whole tensor to fp32, row major; `out` has room for info.numbers(). Thread-safe.
  virtual void read(std::string_view name, float* out) const = 0;
  /// Divides the rotary frequencies, [head_dim / 2] (GGUF's rope_freqs.weight); empty if there are none.
  virtual std::vector<float> rope_divisors() const { return {}; }
  /// Drops mapped pages already decoded.
  virtual void release_pages() const = 0;
  /// SHA-256 over every file that holds weights or config, in a fixed order.
  virtual std::string hash() const = 0;
  virtual uint64_t file_bytes() const = 0;
};

/// A folder (config.json and safetensors) or a .gguf file. InputError, one line, naming what is wrong.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

}  // namespace kvcost
