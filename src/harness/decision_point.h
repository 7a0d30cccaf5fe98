#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "src/cache/row_cache.h"

namespace kvcost {

/// A cache that decides up to a point and then keeps what it has: tokens that come later all stay. Its point
/// is the end of the prompt (CacheShape::prompt): after the attention of the prompt's last query a policy
/// that cuts the prompt once has cut it, and one that evicts after every token has evicted for the last time.
/// Such a one does not make room for the next token any more, so that both keep their capacity of the prompt.

/// Position of the first query before which nothing leaves any more: an `evicted_at` above it stands for
/// never.
int32_t last_eviction(const Policy& policy, int64_t prompt);

/// Lifetimes [kv_heads, tokens] of a cache that goes on evicting -> of one that stops. Undefined stays so.
at::Tensor frozen(const at::Tensor& evicted_at, int32_t last_eviction);

/// True if what the policy evicts up to one decision point is also what it evicts on its way to a later one:
/// it bounds what every query sees, and so cannot wait for the prompt's end. Then a pass to the later point
/// tells the lifetimes, keys and values of all earlier ones.
bool decides_on_the_way(const RowCache& cache);

/// A row's cache in one window, frozen at the prompt's end, with a record of what it did.
class DecidingCache {
 public:
  /// Begins `cache`, which must outlive it.
  DecidingCache(RowCache& cache, const CacheShape& shape);
  /// Attends by itself if the row's positions are renumbered, among what is really kept.
  CachedTokens operator()(const LayerInput& input);
  /// [layers] of [kv_heads, tokens]: as the policy would go on after the prompt. Undefined: nothing leaves.
  const std::vector<at::Tensor>& lifetimes() const { return lifetimes_; }
  const std::vector<at::Tensor>& frozen_lifetimes() const { return frozen_; }

 private:
  RowCache& cache_;
  CacheShape shape_;
  int32_t last_eviction_;
  std::vector<at::Tensor> lifetimes_, frozen_;
};

/// The same row decided at an earlier point, from the lifetimes of a DecidingCache that went further.
class DecidedCache {
 public:
  /// `rounding`: the row's cache without its policy; it is begun, and must outlive this. `renumbered`: the
  /// row's positions.
  DecidedCache(RowCache& rounding, const CacheShape& shape, const std::vector<at::Tensor>& lifetimes,
               int32_t last_eviction, bool renumbered);
  CachedTokens operator()(const LayerInput& input);
  const std::vector<at::Tensor>& frozen_lifetimes() const { return frozen_; }

 private:
  RowCache& rounding_;
  CacheShape shape_;
  bool renumbered_;
  std::vector<at::Tensor> frozen_;
};

/// Mean over layers and KV heads: how many of the prompt's tokens later queries can see.
double prompt_tokens_kept(const std::vector<at::Tensor>& frozen_lifetimes, int64_t prompt);

}  // namespace kvcost
