#include "src/harness/decision_point.h"

#include <algorithm>

#include "src/cache/living_layer.h"

namespace kvcost {

int32_t last_eviction(const Policy& policy, int64_t prompt) {
  // A token that the prompt's last query sees and the next one does not has evicted_at = prompt.
  return static_cast<int32_t>(policy.capacity() == kNever ? prompt : prompt - 1);
}

at::Tensor frozen(const at::Tensor& evicted_at, int32_t last_eviction) {
  if (!evicted_at.defined()) return {};
  return evicted_at.masked_fill(evicted_at > last_eviction, kNever);
}

bool decides_on_the_way(const RowCache& cache) {
  return cache.policy() != nullptr && cache.policy()->capacity() != kNever && !cache.looks_ahead();
}

DecidingCache::DecidingCache(RowCache& cache, const CacheShape& shape)
    : cache_(cache),
      shape_(shape),
      last_eviction_(cache.policy() ? kvcost::last_eviction(*cache.policy(), shape.prompt) : 0),
      lifetimes_(shape.layers),
      frozen_(shape.layers) {
  cache.begin(shape);
}

CachedTokens DecidingCache::operator()(const LayerInput& input) {
  CachedTokens tokens = cache_(input);
  lifetimes_.at(input.layer) = tokens.evicted_at;
  tokens.evicted_at = frozen(tokens.evicted_at, last_eviction_);
  frozen_.at(input.layer) = tokens.evicted_at;
  if (cache_.renumbered()) tokens.attended = attend_renumbered(shape_, input, tokens);
  return tokens;
}

DecidedCache::DecidedCache(RowCache& rounding, const CacheShape& shape,
                           const std::vector<at::Tensor>& lifetimes, int32_t last_eviction, bool renumbered)
    : rounding_(rounding), shape_(shape), renumbered_(renumbered) {
  for (const at::Tensor& evicted_at : lifetimes) frozen_.push_back(frozen(evicted_at, last_eviction));
  rounding.begin(shape);
}

CachedTokens DecidedCache::operator()(const LayerInput& input) {
  CachedTokens tokens = rounding_(input);
  tokens.evicted_at = frozen_.at(input.layer);
  if (renumbered_) tokens.attended = attend_renumbered(shape_, input, tokens);
  return tokens;
}

double prompt_tokens_kept(const std::vector<at::Tensor>& frozen_lifetimes, int64_t prompt) {
  double sum = 0;
  for (const at::Tensor& evicted_at : frozen_lifetimes) {
    if (!evicted_at.defined()) {
      sum += static_cast<double>(prompt);
      continue;
    }
    const at::Tensor kept = evicted_at.narrow(1, 0, prompt) > static_cast<int32_t>(prompt);
    sum += static_cast<double>(kept.sum().item<int64_t>()) / static_cast<double>(evicted_at.size(0));
  }
  return sum / static_cast<double>(frozen_lifetimes.size());
}

}  // namespace kvcost
