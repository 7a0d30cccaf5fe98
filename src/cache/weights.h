#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "src/cache/policy.h"

namespace kvcost {

/// Softmax weights of queries first .. first + count - 1 of one query head with nothing evicted, every key
/// exact or rounded as that query reads it: [count, first + count] fp32, 0 for tokens later than the query.
at::Tensor full_weights(const CacheShape& shape, const LayerSoFar& layer, int64_t query_head, int64_t first,
                        int64_t count);

}  // namespace kvcost
