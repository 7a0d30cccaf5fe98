#pragma once
#include <ATen/ATen.h>

#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost {

/// True if the policy decides by attention, or by queries at all: every one from same_until() on is needed.
bool needs_queries(const Policy& policy);

/// evicted_at [kv_heads, tokens] int32 of one layer; undefined if none leaves.
at::Tensor position_lifetimes(const PositionPolicy& policy, const CacheShape& shape);

/// The layer as it stands after the query at tokens - 1: views of a window's projections and their rounding.
LayerSoFar so_far(const LayerInput& input, const CachedTokens& cache, int64_t tokens);

/// evicted_at [kv_heads, tokens] int32 of one layer under a policy that decides by its content (any but a
/// PositionPolicy). `cache`: the layer's keys and values and their rounding. What a policy is handed ends
/// with the query it decides after, unless it looks ahead.
at::Tensor layer_lifetimes(const Policy& policy, const CacheShape& shape, const LayerInput& input,
                           const CachedTokens& cache);

}  // namespace kvcost
