#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/cache/row_cache.h"
#include "src/harness/config/experiment.h"
#include "src/harness/scoring.h"
#include "src/harness/unit_store.h"
#include "src/model/decoder.h"

namespace kvcost {

/// Measures rows in one window. The full cache runs first, when it is first needed; its keys, values and
/// logits are kept for the rows until this goes away.
class WindowMeasurer {
 public:
  /// `decoder` and `ids` must outlive it. 1 <= scored < ids.size().
  WindowMeasurer(const Decoder& decoder, std::span<const int32_t> ids, int64_t scored);
  const Unit& full();
  /// Lets go of the full cache's keys, values and logits.
  void forget_full();
  /// Every layer's keys and values under the full cache; empty before full().
  const std::vector<LayerKv>& kv() const { return kv_; }
  /// Failure naming the layer on NaN or infinity.
  Unit row(RowCache& cache);
  /// Only losses, with every embedding multiplied by 1 + relative * N(0, 1); the same for the same seed,
  /// repeat and window, whatever the row.
  Unit perturbed(RowCache& cache, double relative, int64_t seed, int64_t repeat, int64_t window);

 private:
  CacheShape shape() const;
  std::span<const int32_t> targets() const;
  Pass scored_pass(RowCache& cache) const;
  /// Final hidden states of the positions that `pass` wants. A policy that is told of every query's attention
  /// must see them all, in the last layer too.
  at::Tensor hidden_of(const Pass& pass, const RowCache& cache) const;
  LogitsFunction logits_of(const at::Tensor& hidden) const;

  const Decoder& decoder_;
  std::span<const int32_t> ids_;
  int64_t scored_;
  std::vector<LayerKv> kv_;
  std::optional<FullDistribution> distribution_;
  Unit full_;
};

/// Random numbers of mean 0 and deviation 1, [tokens, hidden]; the same for the same seed everywhere.
at::Tensor normal_numbers(int64_t tokens, int64_t hidden, int64_t seed, int64_t repeat, int64_t window);

}  // namespace kvcost
