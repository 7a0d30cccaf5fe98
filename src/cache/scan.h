#pragma once
#include <ATen/ATen.h>

#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost {

/// Lives through one layer's window as a cache under `policy` would, step by step: query i enters, its
/// weights are taken over the tokens still kept (keys rounded where they are by then), the policy is told
/// them and gives up what has no room. Returns evicted_at, [kv_heads, tokens] int32. q [queries, query_heads,
/// head_dim], if weights are read: from policy.same_until() or before to the window's last query. `cache`:
/// keys and their rounding; its evicted_at is not read. KV heads run in parallel unless they share one set.
/// ties [kv_heads] or nullptr: added to; of heads that share a set, the first's.
at::Tensor scan(const ContentPolicy& policy, const CacheShape& shape, const at::Tensor& q,
                int64_t first_query, const CachedTokens& cache, TieCount* ties = nullptr);

}  // namespace kvcost
