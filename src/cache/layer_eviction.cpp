#include "src/cache/layer_eviction.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "src/base/error.h"
#include "src/cache/scan.h"

namespace kvcost {
namespace {

void decide_now_and_then(const IntervalPolicy& policy, const CacheShape& shape, const LayerInput& input,
                         const CachedTokens& cache, int32_t* evicted_at) {
  const int64_t T = shape.tokens;
  for (int64_t i = policy.next_decision(shape, 0); i < T; i = policy.next_decision(shape, i + 1)) {
    const int64_t tokens = i + 1;
    std::vector<uint8_t> kept(static_cast<size_t>(shape.kv_heads * tokens));
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      for (int64_t j = 0; j < tokens; ++j) kept[h * tokens + j] = evicted_at[h * T + j] == kNever;
    }
    policy.decide(shape, so_far(input, cache, tokens), kept);
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      for (int64_t j = 0; j < tokens; ++j) {
        int32_t& at = evicted_at[h * T + j];
        if (kept[h * tokens + j] == 0) at = std::min(at, static_cast<int32_t>(tokens));
      }
    }
  }
}

}  // namespace

LayerSoFar so_far(const LayerInput& input, const CachedTokens& cache, int64_t tokens) {
  auto first = [&](const at::Tensor& x, int64_t dim) {
    return x.defined() ? x.narrow(dim, 0, tokens) : at::Tensor();
  };
  LayerSoFar layer;
  layer.tokens = tokens;
  layer.first_query = input.first_query;
  layer.q = input.q.narrow(0, 0, tokens - input.first_query);
  layer.cache.k = first(cache.k, 0), layer.cache.v = first(cache.v, 0);
  layer.cache.k_rounded = first(cache.k_rounded, 0), layer.cache.v_rounded = first(cache.v_rounded, 0);
  layer.cache.k_rounded_at = first(cache.k_rounded_at, 1);
  layer.cache.v_rounded_at = first(cache.v_rounded_at, 1);
  layer.cos = first(input.cos, 0), layer.sin = first(input.sin, 0);
  return layer;
}

at::Tensor position_lifetimes(const PositionPolicy& policy, const CacheShape& shape) {
  at::Tensor out = at::empty({shape.kv_heads, shape.tokens}, at::kInt);
  int32_t* lifetimes = out.data_ptr<int32_t>();
  bool evicts = false;
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    std::span<int32_t> head(lifetimes + h * shape.tokens, static_cast<size_t>(shape.tokens));
    policy.lifetimes(shape, h, head);
    evicts = evicts || std::any_of(head.begin(), head.end(), [&](int32_t at) { return at < shape.tokens; });
  }
  return evicts ? out : at::Tensor();
}

bool needs_queries(const Policy& policy) {
  if (dynamic_cast<const PositionPolicy*>(&policy) != nullptr) return false;
  const auto* content = dynamic_cast<const ContentPolicy*>(&policy);
  return content == nullptr || content->reads_weights();
}

at::Tensor layer_lifetimes(const Policy& policy, const CacheShape& shape, const LayerInput& input,
                           const CachedTokens& cache) {
  if (const auto* content = dynamic_cast<const ContentPolicy*>(&policy)) {
    return scan(*content, shape, input.q, input.first_query, cache);
  }
  if (input.first_query > policy.same_until(shape) || input.first_query + input.q.size(0) != shape.tokens) {
    throw Failure(fmt::format("policy: given queries from {}, needs {} to {}", input.first_query,
                              policy.same_until(shape), shape.tokens - 1));
  }
  at::Tensor evicted_at = at::full({shape.kv_heads, shape.tokens}, kNever, at::kInt);
  int32_t* out = evicted_at.data_ptr<int32_t>();
  if (const auto* interval = dynamic_cast<const IntervalPolicy*>(&policy)) {
    decide_now_and_then(*interval, shape, input, cache, out);
  } else if (const auto* foresight = dynamic_cast<const ForesightPolicy*>(&policy)) {
    const LayerSoFar whole = so_far(input, cache, shape.tokens);
    at::parallel_for(0, shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        foresight->lifetimes(shape, whole, h, {out + h * shape.tokens, static_cast<size_t>(shape.tokens)});
      }
    });
  } else {
    throw Failure("policy: of no kind that decides by content");
  }
  return evicted_at;
}

}  // namespace kvcost
