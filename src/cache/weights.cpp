#include "src/cache/weights.h"

#include <algorithm>
#include <cmath>

#include "src/model/softmax.h"

namespace kvcost {
namespace {

/// Row-major [rows, columns] of q . k, in units of log 2.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k) {
  const double scale = 1.4426950408889634 / std::sqrt(static_cast<double>(q.size(1)));
  return at::mm(q * scale, k.t());
}

}  // namespace

at::Tensor full_weights(const CacheShape& shape, const LayerSoFar& layer, int64_t query_head, int64_t first,
                        int64_t count) {
  const int64_t tokens = first + count, kv_head = query_head / (shape.query_heads / shape.kv_heads);
  const CachedTokens& cache = layer.cache;
  auto keys = [&](const at::Tensor& k) { return k.narrow(0, 0, tokens).select(1, kv_head); };
  const at::Tensor q = layer.q.narrow(0, first - layer.first_query, count).select(1, query_head);
  const bool both = cache.k_rounded.defined() && cache.k_rounded_at.defined();
  at::Tensor out = scores_of(q, keys(cache.k_rounded.defined() && !both ? cache.k_rounded : cache.k));
  const at::Tensor rounded = both ? scores_of(q, keys(cache.k_rounded)) : at::Tensor();
  const int32_t* rounded_at = both ? cache.k_rounded_at[kv_head].const_data_ptr<int32_t>() : nullptr;
  for (int64_t r = 0; r < count; ++r) {
    float* row = out.data_ptr<float>() + r * tokens;
    const int i = static_cast<int>(first + r);
    if (both) take_rounded(row, rounded.const_data_ptr<float>() + r * tokens, rounded_at, i + 1, i);
    softmax(row, i + 1);
    std::fill(row + i + 1, row + tokens, 0.0f);
  }
  return out;
}

}  // namespace kvcost
