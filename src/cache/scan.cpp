#include "src/cache/scan.h"

#include "src/cache/living_layer.h"

namespace kvcost {

at::Tensor scan(const ContentPolicy& policy, const CacheShape& shape, const at::Tensor& q,
                int64_t first_query, const CachedTokens& cache) {
  LivingRules rules;
  rules.policy = &policy, rules.capacity = policy.capacity(), rules.attends = false;
  LayerInput input;
  input.first_query = first_query, input.q = q, input.k = cache.k;
  RankAngles none;
  at::Tensor evicted_at = at::full({shape.kv_heads, shape.tokens}, kNever, at::kInt);
  LivingLayer(rules, shape, none).feed(input, cache, evicted_at.data_ptr<int32_t>());
  return evicted_at;
}

}  // namespace kvcost
