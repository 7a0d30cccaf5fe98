#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "src/cache/row_cache.h"
#include "src/model/decoder.h"

namespace kvcost {

/// One window, and the queries in it that predict scored tokens: positions length - scored - 1 to length - 2.
struct ScoredWindow {
  const Decoder& decoder;
  std::span<const int32_t> ids;
  int64_t scored = 0;  ///< from 1 to ids.size() - 1

  CacheShape shape() const;
  int64_t length() const { return static_cast<int64_t>(ids.size()); }
  int64_t first_query() const { return length() - scored - 1; }
};

/// What a row evicted in one window.
struct RowLifetimes {
  std::vector<at::Tensor> evicted_at;  ///< [layers] of [kv_heads, tokens]; undefined: nothing
  TieCount ties;
  double tokens_kept = 0;  ///< as CacheReport's
};

/// The full cache's keys and values, for rows to start from.
std::vector<LayerKv> full_cache_kv(const ScoredWindow& window);

/// Runs the row's own pass: a layer decides from what the layers before, thinned out, hand it. Failure naming
/// the layer on NaN or infinity.
RowLifetimes run_lifetimes(const ScoredWindow& window, const std::vector<LayerKv>& full, RowCache& cache);

/// [layers]: |A and B| / |A or B| of the sets of tokens that a query may see in two rows, a mean over KV
/// heads and the queries that predict scored tokens.
std::vector<double> kept_overlap(const ScoredWindow& window, const RowLifetimes& a, const RowLifetimes& b);

/// [rows][layers]: the softmax weight that the full cache's query puts, by the full cache's keys, on tokens
/// that the row lets it see; a mean over query heads and the queries that predict scored tokens. One more
/// pass with the full cache, all rows at once.
std::vector<std::vector<double>> attention_kept(const ScoredWindow& window,
                                                std::span<const RowLifetimes> rows);

}  // namespace kvcost
