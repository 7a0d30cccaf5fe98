#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <utility>
#include <vector>

#include "src/cache/policy.h"
#include "tests/support/kept_tokens.h"
#include "tests/support/renumbered.h"

namespace kvcost::testing {

/// One layer's cache as a list of tokens for each KV head, fed one token at a time; all else is made anew at
/// every step, and shown to the policy in an order of its own, the newest first.
class ListCache {
 public:
  /// `lifetimes` [kv_heads, tokens]: of a policy that looks ahead.
  ListCache(std::shared_ptr<const Policy> policy, const CacheShape& shape, bool renumbered,
            at::Tensor lifetimes = {})
      : policy_(std::move(policy)),
        shape_(shape),
        renumbered_(renumbered),
        lifetimes_(std::move(lifetimes)),
        kept_(shape.kv_heads),
        memory_(shape.kv_heads, std::vector<std::vector<double>>(shape.tokens)) {}

  /// `input`: all tokens up to the newest, whose query alone asks. Returns what it gets, [1, query_heads,
  /// head_dim].
  at::Tensor step(const LayerInput& input) {
    const int64_t i = input.first_query, d = shape_.head_dim;
    asked_.push_back(input.q.clone());
    at::Tensor out = at::empty_like(input.q);
    for (int64_t h = 0; h < shape_.query_heads; ++h) {
      Tokens& kept = kept_[h / group()];
      if (h % group() == 0) kept.push_back(i);
      const std::vector<double> got = attention(input, h, kept);
      for (int64_t c = 0; c < d; ++c) out[0][h][c] = got[c];
    }
    for (const Tokens& kept : kept_)
      seen_ += i >= shape_.prompt - 1 && i <= shape_.tokens - 2 ? kept.size() : 0;
    give_up(input, i);
    return out;
  }
  /// Tokens that the queries which predict scored tokens saw, summed over KV heads.
  size_t seen() const { return seen_; }
  const std::vector<Tokens>& kept() const { return kept_; }

 private:
  int64_t group() const { return shape_.query_heads / shape_.kv_heads; }

  /// Token j's key, turned to `position` if renumbered.
  std::vector<float> key(const LayerInput& input, int64_t h, int64_t j, int64_t position) const {
    const int64_t at = (j * shape_.kv_heads + h) * shape_.head_dim;
    if (renumbered_)
      return turned(input.k_unrotated.const_data_ptr<float>() + at, frequencies_of(input), double(position));
    const float* row = input.k.const_data_ptr<float>() + at;
    return {row, row + shape_.head_dim};
  }

  std::vector<double> attention(const LayerInput& input, int64_t query_head, const Tokens& kept) const {
    CachedTokens cache;
    cache.k = input.k, cache.v = input.v;
    if (renumbered_) return renumbered_attention(shape_, input, cache, query_head, input.first_query, kept);
    std::vector<SeenToken> seen;
    for (int64_t j : kept) {
      const int64_t at = (j * shape_.kv_heads + query_head / group()) * shape_.head_dim;
      seen.push_back({input.k.const_data_ptr<float>() + at, input.v.const_data_ptr<float>() + at});
    }
    return dense_attention(input.q.const_data_ptr<float>() + query_head * shape_.head_dim, seen,
                           shape_.head_dim);
  }

  void give_up(const LayerInput& input, int64_t i) {
    const auto* content = dynamic_cast<const ContentPolicy*>(policy_.get());
    const auto* interval = dynamic_cast<const IntervalPolicy*>(policy_.get());
    const auto* by_position = dynamic_cast<const PositionPolicy*>(policy_.get());
    for (int64_t h = 0; h < shape_.kv_heads; ++h) {
      std::vector<int32_t> gone(shape_.tokens, kNever);
      if (by_position != nullptr) by_position->lifetimes(shape_, h, gone);
      if (lifetimes_.defined())
        std::copy_n(lifetimes_[h].const_data_ptr<int32_t>(), gone.size(), gone.begin());
      std::erase_if(kept_[h], [&](int64_t j) { return gone[j] <= i + 1; });
    }
    if (content != nullptr) {
      const int64_t heads = content->one_set_per_layer() ? shape_.kv_heads : 1;
      for (int64_t h = 0; h < shape_.kv_heads; h += heads) ask(*content, input, i, h, heads);
    }
    if (interval != nullptr && interval->next_decision(shape_, i) == i) ask(*interval, input, i);
  }

  void ask(const ContentPolicy& policy, const LayerInput& input, int64_t i, int64_t first, int64_t heads) {
    const int64_t d = shape_.head_dim;
    const Tokens kept = kept_[first];
    const auto slots = static_cast<int64_t>(kept.size()), stride = slots + 3;
    const int64_t numbers = policy.numbers_per_token();
    std::vector<int32_t> positions(kept.rbegin(), kept.rend());
    std::vector<float> keys(static_cast<size_t>(heads * d * stride)),
        weights(static_cast<size_t>(heads * group() * stride));
    std::vector<double> memory(static_cast<size_t>(numbers * stride));
    CacheView view;
    view.query = i, view.newest = 0, view.positions = positions, view.stride = stride;
    view.first_head = first * group(), view.heads = heads * group();
    view.first_kv_head = first, view.kv_heads = heads, view.head_dim = d;
    view.weights = policy.reads_weights() ? weights.data() : nullptr, view.keys = keys.data();
    const std::vector<double> frequencies = frequencies_of(input);
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<std::vector<float>> rows;
      std::vector<const float*> pointers;
      for (int64_t s = 0; s < slots; ++s) {
        rows.push_back(key(input, first + h, positions[s], slots - 1 - s));
        for (int64_t c = 0; c < d; ++c) keys[(h * d + c) * stride + s] = rows.back()[c];
      }
      for (const auto& row : rows) pointers.push_back(row.data());
      for (int64_t g = 0; g < group(); ++g) {
        const float* q = input.q.const_data_ptr<float>() + ((first + h) * group() + g) * d;
        const auto one = dense_weights(turned(q, frequencies, renumbered_ ? double(slots - 1 - i) : 0).data(),
                                       pointers, d);
        std::copy(one.begin(), one.end(), weights.begin() + (h * group() + g) * stride);
      }
    }
    auto number = [&](int64_t s) -> std::vector<double>& { return memory_[first][positions[s]]; };
    for (int64_t s = 0; s < slots; ++s) {
      number(s).resize(static_cast<size_t>(numbers));
      for (int64_t n = 0; n < numbers; ++n) memory[n * stride + s] = number(s)[n];
    }
    for (int64_t s = 0; s < slots; ++s) policy.read_key(shape_, view, s, memory);
    if (i >= policy.same_until(shape_)) {
      policy.observe(shape_, view, memory);
      if (slots >= policy.capacity()) {
        const int32_t gone = positions[policy.evict(shape_, view, memory)];
        for (int64_t h = first; h < first + heads; ++h) std::erase(kept_[h], gone);
      }
    }
    for (int64_t s = 0; s < slots; ++s) {
      for (int64_t n = 0; n < numbers; ++n) number(s)[n] = memory[n * stride + s];
    }
  }

  void ask(const IntervalPolicy& policy, const LayerInput& input, int64_t i) {
    const int64_t tokens = i + 1;
    LayerSoFar layer;
    layer.tokens = tokens, layer.q = at::cat(asked_), layer.cos = input.cos, layer.sin = input.sin;
    layer.cache.k = input.k.clone(), layer.cache.v = input.v;
    std::vector<uint8_t> kept(static_cast<size_t>(shape_.kv_heads * tokens), 0);
    for (int64_t h = 0; h < shape_.kv_heads; ++h) {
      const auto count = static_cast<int64_t>(kept_[h].size());
      for (int64_t rank = 0; rank < count; ++rank) {
        const int64_t j = kept_[h][rank];
        kept[h * tokens + j] = 1;
        const std::vector<float> now = key(input, h, j, i - (count - 1 - rank));
        for (size_t c = 0; c < now.size(); ++c) layer.cache.k[j][h][c] = now[c];
      }
    }
    policy.decide(shape_, layer, kept);
    for (int64_t h = 0; h < shape_.kv_heads; ++h) {
      std::erase_if(kept_[h], [&](int64_t j) { return kept[h * tokens + j] == 0; });
    }
  }

  std::shared_ptr<const Policy> policy_;
  CacheShape shape_;
  bool renumbered_;
  at::Tensor lifetimes_;
  std::vector<Tokens> kept_;                              ///< [kv_heads]
  std::vector<std::vector<std::vector<double>>> memory_;  ///< [kv_heads][tokens][numbers]
  std::vector<at::Tensor> asked_;
  size_t seen_ = 0;
};

}  // namespace kvcost::testing
