#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/model/attention.h"
#include "src/model/formats/weight_source.h"

namespace kvcost {

enum class Dtype { fp32, bf16 };

/// Keys before RoPE and values of a window's tokens, every layer: [tokens, kv_heads, head_dim] each.
struct LayerKv {
  at::Tensor k_unrotated, v;
};

/// One forward pass over (part of) a window.
struct Pass {
  std::span<const int32_t> ids;
  /// Position of ids[0]: a chunk of a longer text runs with what came before it in `cache`, without a prefix.
  /// `start` and `wanted_*` count from ids[0] all the same. No position is too far.
  int64_t offset = 0;
  /// Positions before `start` are not computed: `prefix` (one entry a layer) gives their keys and values.
  int64_t start = 0;
  const std::vector<LayerKv>* prefix = nullptr;
  /// Final hidden states are wanted of positions wanted_from .. wanted_to - 1 (wanted_from >= start).
  int64_t wanted_from = 0, wanted_to = 0;
  CacheFunction cache;
  /// If set, filled with every layer's keys and values, [0, tokens).
  std::vector<LayerKv>* keep = nullptr;
  /// Multiplies the embeddings, [tokens, hidden]; undefined = no perturbation.
  at::Tensor embedding_factor;
};

/// A decoder-only transformer with grouped-query attention, RMSNorm, SwiGLU and RoPE.
class Decoder {
 public:
  Decoder(const WeightSource& weights, Dtype dtype);
  ~Decoder();
  const ModelConfig& config() const;
  /// Final hidden states after the last norm, [wanted, hidden] fp32. Failure naming the layer on NaN or
  /// infinity.
  at::Tensor hidden(const Pass& pass) const;
  /// Logits over rows [first, last) of the output matrix: [positions, last - first] fp32, into `out`.
  void logits(const at::Tensor& hidden, int64_t first, int64_t last, at::Tensor& out) const;
  /// [kv_heads, head_dim] or undefined.
  at::Tensor key_bias(int layer) const;
  /// Bytes the weights take in memory.
  uint64_t weight_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvcost
