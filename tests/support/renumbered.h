// Positions by rank, as the definition says it: own rotation, in double, one query and one token at a time.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cache/policy.h"
#include "src/model/attention.h"
#include "tests/support/dense_attention.h"

namespace kvcost::testing {

/// x, [head_dim], turned back from position `from` and on to position `to`, in double, by the text's own
/// rotary table (rows from its beginning).
inline std::vector<float> turned(const float* x, const LayerInput& input, int64_t from, int64_t to) {
  const auto half = static_cast<size_t>(input.cos.size(1));
  const float *cos = input.cos.const_data_ptr<float>(), *sin = input.sin.const_data_ptr<float>();
  std::vector<float> out(2 * half);
  for (size_t c = 0; c < half; ++c) {
    const double from_cos = cos[size_t(from) * half + c], from_sin = sin[size_t(from) * half + c];
    const double to_cos = cos[size_t(to) * half + c], to_sin = sin[size_t(to) * half + c];
    const double a = x[c] * from_cos + x[c + half] * from_sin, b = x[c + half] * from_cos - x[c] * from_sin;
    out[c] = float(a * to_cos - b * to_sin), out[c + half] = float(b * to_cos + a * to_sin);
  }
  return out;
}

/// Whether query i reads token j rounded.
inline bool reads_rounded(const at::Tensor& rounded, const at::Tensor& rounded_at, int64_t kv_head, int64_t j,
                          int64_t i) {
  return rounded.defined() && (!rounded_at.defined() || i >= rounded_at[kv_head][j].item<int32_t>());
}

/// What query i of one query head gets from `kept`, positions ascending, the newest its own. A window whole.
inline std::vector<double> renumbered_attention(const CacheShape& shape, const LayerInput& input,
                                                const CachedTokens& cache, int64_t query_head, int64_t i,
                                                const std::vector<int64_t>& kept) {
  const int64_t d = shape.head_dim, kv_head = query_head / (shape.query_heads / shape.kv_heads);
  std::vector<std::vector<float>> keys;
  std::vector<SeenToken> seen;
  for (size_t rank = 0; rank < kept.size(); ++rank) {
    const int64_t j = kept[rank], at = (j * shape.kv_heads + kv_head) * d;
    const bool k = reads_rounded(cache.k_rounded, cache.k_rounded_at, kv_head, j, i);
    const bool v = reads_rounded(cache.v_rounded, cache.v_rounded_at, kv_head, j, i);
    keys.push_back(turned((k ? cache.k_rounded_unrotated : input.k_unrotated).const_data_ptr<float>() + at,
                          input, 0, int64_t(rank)));
    seen.push_back({nullptr, (v ? cache.v_rounded : cache.v).const_data_ptr<float>() + at});
  }
  for (size_t s = 0; s < seen.size(); ++s) seen[s].k = keys[s].data();
  const float* row =
      input.q.const_data_ptr<float>() + ((i - input.first_query) * shape.query_heads + query_head) * d;
  return dense_attention(turned(row, input, i, int64_t(kept.size()) - 1).data(), seen, d);
}

}  // namespace kvcost::testing
