// Positions by rank, as the definition says it: own rotation, in double, one query and one token at a time.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cache/policy.h"
#include "src/model/attention.h"
#include "tests/support/dense_attention.h"

namespace kvcost::testing {

/// Radians per position of each pair of channels, from the table of a text's beginning (two tokens at least).
inline std::vector<double> frequencies_of(const LayerInput& input) {
  std::vector<double> out;
  for (int64_t c = 0; c < input.cos.size(1); ++c) {
    out.push_back(input.cos.size(0) < 2
                      ? 0
                      : std::atan2(input.sin[1][c].item<double>(), input.cos[1][c].item<double>()));
  }
  return out;
}

/// x, [2 * frequencies], turned by `positions` positions, forwards or back.
inline std::vector<float> turned(const float* x, const std::vector<double>& frequencies, double positions) {
  const size_t half = frequencies.size();
  std::vector<float> out(2 * half);
  for (size_t c = 0; c < half; ++c) {
    const double cos = std::cos(positions * frequencies[c]), sin = std::sin(positions * frequencies[c]);
    out[c] = float(x[c] * cos - x[c + half] * sin);
    out[c + half] = float(x[c + half] * cos + x[c] * sin);
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
  const std::vector<double> frequencies = frequencies_of(input);
  std::vector<std::vector<float>> keys;
  std::vector<SeenToken> seen;
  for (size_t rank = 0; rank < kept.size(); ++rank) {
    const int64_t j = kept[rank], at = (j * shape.kv_heads + kv_head) * d;
    const bool k = reads_rounded(cache.k_rounded, cache.k_rounded_at, kv_head, j, i);
    const bool v = reads_rounded(cache.v_rounded, cache.v_rounded_at, kv_head, j, i);
    keys.push_back(turned((k ? cache.k_rounded_unrotated : input.k_unrotated).const_data_ptr<float>() + at,
                          frequencies, double(rank)));
    seen.push_back({nullptr, (v ? cache.v_rounded : cache.v).const_data_ptr<float>() + at});
  }
  for (size_t s = 0; s < seen.size(); ++s) seen[s].k = keys[s].data();
  const float* row =
      input.q.const_data_ptr<float>() + ((i - input.first_query) * shape.query_heads + query_head) * d;
  return dense_attention(turned(row, frequencies, double(kept.size()) - 1 - double(i)).data(), seen, d);
}

}  // namespace kvcost::testing
