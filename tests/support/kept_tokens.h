#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/cache/row_cache.h"
#include "tests/support/dense_attention.h"
#include "tests/support/layers.h"
#include "tests/support/renumbered.h"

namespace kvcost::testing {

using Tokens = std::vector<int64_t>;              ///< positions, ascending
using Seen = std::vector<std::vector<Tokens>>;    ///< [kv_heads][queries] what each query sees
using Scores = std::vector<std::vector<double>>;  ///< [kv_heads][tokens]

/// What each query sees, by the definition of a lifetime.
inline Seen seen_by(const CachedTokens& cache, const CacheShape& shape) {
  const int32_t* gone = cache.evicted_at.defined() ? cache.evicted_at.const_data_ptr<int32_t>() : nullptr;
  Seen seen(shape.kv_heads, std::vector<Tokens>(shape.tokens));
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t i = 0; i < shape.tokens; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        if (gone == nullptr || i < gone[h * shape.tokens + j]) seen[h][i].push_back(j);
      }
    }
  }
  return seen;
}

/// Which of `kept` to give up after query i's attention, for the set of KV heads that begins at first_head.
using Drop = std::function<Tokens(int64_t first_head, int64_t i, const Tokens& kept)>;

/// A cache's life, token by token; `heads_per_set` KV heads share one set of tokens.
inline Seen live(const CacheShape& shape, int64_t heads_per_set, const Drop& drop) {
  Seen seen(shape.kv_heads, std::vector<Tokens>(shape.tokens));
  for (int64_t first = 0; first < shape.kv_heads; first += heads_per_set) {
    Tokens kept;
    for (int64_t i = 0; i < shape.tokens; ++i) {
      kept.push_back(i);
      for (int64_t h = first; h < first + heads_per_set; ++h) seen[h][i] = kept;
      for (int64_t gone : drop(first, i, kept)) std::erase(kept, gone);
    }
  }
  return seen;
}

/// A layer's attention by the textbook: keys as each query reads them, weights over whichever tokens are
/// kept, at their own positions or renumbered.
class PlainLayer {
 public:
  PlainLayer(const CacheShape& shape, const LayerInput& input, const CachedTokens& cache,
             bool renumbered = false)
      : shape_(shape),
        input_(input),
        cache_(cache),
        renumbered_(renumbered),
        frequencies_(frequencies_of(input)) {}

  const CacheShape& shape() const { return shape_; }
  int64_t group() const { return shape_.query_heads / shape_.kv_heads; }
  /// The position of query i, or of token j, where `kept` are in the cache.
  int64_t position(int64_t j, const Tokens& kept) const {
    return renumbered_ ? std::find(kept.begin(), kept.end(), j) - kept.begin() : j;
  }

  /// Token j's key as query i reads it among `kept`, [head_dim].
  std::vector<float> key(int64_t kv_head, int64_t j, int64_t i, const Tokens& kept) const {
    const bool rounded = reads_rounded(cache_.k_rounded, cache_.k_rounded_at, kv_head, j, i);
    const at::Tensor& rows = renumbered_ ? (rounded ? cache_.k_rounded_unrotated : input_.k_unrotated)
                                         : (rounded ? cache_.k_rounded : cache_.k);
    const float* row = rows.const_data_ptr<float>() + (j * shape_.kv_heads + kv_head) * shape_.head_dim;
    if (!renumbered_) return {row, row + shape_.head_dim};
    return turned(row, frequencies_, double(position(j, kept)));
  }
  std::vector<double> weights(int64_t query_head, int64_t i, const Tokens& kept) const {
    std::vector<std::vector<float>> keys;
    std::vector<const float*> rows;
    for (int64_t j : kept) keys.push_back(key(query_head / group(), j, i, kept));
    for (const auto& one : keys) rows.push_back(one.data());
    const float* q = input_.q.const_data_ptr<float>() +
                     ((i - input_.first_query) * shape_.query_heads + query_head) * shape_.head_dim;
    return dense_weights(turned(q, frequencies_, double(position(i, kept) - i)).data(), rows,
                         shape_.head_dim);
  }
  /// Mean over the query heads that read KV heads first .. first + count - 1.
  std::vector<double> mean_weights(int64_t first, int64_t count, int64_t i, const Tokens& kept) const {
    std::vector<double> mean(kept.size(), 0.0);
    for (int64_t h = first * group(); h < (first + count) * group(); ++h) {
      const std::vector<double> one = weights(h, i, kept);
      for (size_t s = 0; s < kept.size(); ++s) mean[s] += one[s] / double(count * group());
    }
    return mean;
  }

 private:
  CacheShape shape_;
  LayerInput input_;
  CachedTokens cache_;
  bool renumbered_;
  std::vector<double> frequencies_;
};

/// Of `kept`, less its first `sinks` and its last `recent`, the one with the largest badness; the oldest of
/// equals. A lone token goes whatever it is.
inline Tokens worst(const Tokens& kept, const std::vector<double>& badness, int64_t recent, int64_t sinks) {
  size_t first = static_cast<size_t>(sinks),
         end = kept.size() - static_cast<size_t>(std::max<int64_t>(1, recent));
  if (kept.size() == 1) first = 0, end = 1;
  const auto at = std::max_element(badness.begin() + int64_t(first), badness.begin() + int64_t(end));
  return {kept[size_t(at - badness.begin())]};
}

inline CacheShape shape_of(int64_t query_heads, int64_t kv_heads, int64_t head_dim, int64_t tokens,
                           int64_t prompt) {
  CacheShape shape;
  shape.layers = 1, shape.query_heads = query_heads, shape.kv_heads = kv_heads, shape.head_dim = head_dim;
  shape.tokens = tokens, shape.prompt = prompt;
  return shape;
}

/// Grouped heads or not, odd lengths, windows of one and two tokens, and more than the scan's 64 at once.
inline std::vector<CacheShape> several_shapes() {
  return {shape_of(6, 2, 16, 37, 11), shape_of(4, 4, 8, 29, 20), shape_of(9, 3, 20, 61, 60),
          shape_of(8, 1, 16, 97, 80), shape_of(1, 1, 4, 1, 1),   shape_of(2, 1, 2, 2, 1)};
}

using Plain = std::function<Seen(const PlainLayer&)>;

/// The registered policy's lifetimes against `plain`, in every shape, keys exact and rounded as they age,
/// positions original and renumbered.
inline void expect_lives_like(const nlohmann::json& evict, const Plain& plain) {
  for (const CacheShape& shape : several_shapes()) {
    for (int form = 0; form < 4; ++form) {
      const bool rounded = form % 2 == 1, renumbered = form / 2 == 1;
      const LayerInput input = random_layer(shape, 21);
      nlohmann::json row = {{"evict", evict}};
      if (rounded) {
        row["keys"] = {{"codec", "minmax"}, {"bits", 3}, {"axis", "token"}, {"group", shape.head_dim}};
        row["exact_last"] = 5;
      }
      if (renumbered) row["evict"]["positions"] = "cache";
      if (renumbered && rounded) row["keys"]["rope"] = "before";
      RowCache policy(row, "row");
      policy.begin(shape);
      const CachedTokens cache = policy(input);
      const Seen want = plain(PlainLayer(shape, input, cache, renumbered)), got = seen_by(cache, shape);
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        for (int64_t i = 0; i < shape.tokens; ++i) {
          ASSERT_EQ(got[h][i], want[h][i])
              << row << ", " << shape.tokens << " tokens, KV head " << h << ", query " << i;
        }
      }
    }
  }
}

}  // namespace kvcost::testing
