#include "src/cache/scan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/error.h"
#include "src/model/simd.h"
#include "src/model/softmax.h"

namespace kvcost {
namespace {

constexpr int64_t kBlock = 64;  // slots whose scores are summed at once, in registers

/// out[s] = scale * (q . column s of keys), for whole blocks of slots. keys [head_dim, stride].
KVCOST_MULTIARCH void score(const float* __restrict q, const float* __restrict keys, int64_t head_dim,
                            int64_t stride, int64_t blocks, float scale, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b) {
    float sum[kBlock] = {};
    for (int64_t c = 0; c < head_dim; ++c) {
      const float* row = keys + c * stride + b * kBlock;
      for (int64_t l = 0; l < kBlock; ++l) sum[l] += q[c] * row[l];
    }
    for (int64_t l = 0; l < kBlock; ++l) out[b * kBlock + l] = sum[l] * scale;
  }
}

/// Scores in units of log 2 -> weights, in place.
void softmax(float* scores, int64_t n) {
  float most = kHiddenScore, sum = 0;
  softmax_step(scores, static_cast<int>(n), &most, &sum, nullptr, 0);
  const float inverse = 1.0f / sum;
  for (int64_t s = 0; s < n; ++s) scores[s] *= inverse;
}

/// The tokens one set of KV heads keeps, as they stand at one step.
class LiveCache {
 public:
  LiveCache(const ContentPolicy& policy, const CacheShape& shape, const CachedTokens& cache,
            int64_t first_kv_head, int64_t kv_heads, int32_t* evicted_at)
      : policy_(policy),
        shape_(shape),
        cache_(cache),
        evicted_at_(evicted_at),
        stride_((std::min<int64_t>(policy.capacity(), shape.tokens) + kBlock - 1) / kBlock * kBlock),
        numbers_(policy.numbers_per_token(shape)) {
    const int64_t group = shape.query_heads / shape.kv_heads;
    view_.first_kv_head = first_kv_head, view_.kv_heads = kv_heads;
    view_.first_head = first_kv_head * group, view_.heads = kv_heads * group;
    view_.head_dim = shape.head_dim;
    keys_.assign(static_cast<size_t>(kv_heads * shape.head_dim * stride_), 0.0f);
    weights_.assign(static_cast<size_t>(view_.heads * stride_), 0.0f);
    view_.weights = weights_.data(), view_.weight_stride = stride_;
    view_.keys = keys_.data(), view_.key_stride = stride_;
  }

  /// Token `i` enters, having no room being the caller's fault.
  void enter(int64_t i) {
    positions_.push_back(static_cast<int32_t>(i));
    memory_.resize(memory_.size() + static_cast<size_t>(numbers_), 0.0);
    int64_t slot = slots() - 1;
    TORCH_CHECK(slot < stride_, "more tokens than the policy's capacity");
    for (int64_t h = 0; h < view_.kv_heads; ++h) write_key(h, slot, reads_rounded(h, i, i));
  }

  /// Rounds what becomes rounded at step `i`.
  void age(int64_t i) {
    if (!cache_.k_rounded.defined() || !cache_.k_rounded_at.defined()) return;
    for (int64_t h = 0; h < view_.kv_heads; ++h) {
      const int32_t* rounded_at = rounded_at_of(h);
      for (int64_t s = 0; s < slots(); ++s) {
        if (rounded_at[positions_[s]] == i) write_key(h, s, true);
      }
    }
  }

  /// Query i (its newest token being i) attends. q [query_heads, head_dim].
  void attend_from(int64_t i, const float* q) {
    const float scale =
        static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(shape_.head_dim)));
    const int64_t group = view_.heads / view_.kv_heads;
    for (int64_t r = 0; r < view_.heads; ++r) {
      float* weights = weights_.data() + r * stride_;
      score(q + (view_.first_head + r) * shape_.head_dim,
            keys_.data() + r / group * shape_.head_dim * stride_, shape_.head_dim, stride_,
            (slots() + kBlock - 1) / kBlock, scale, weights);
      softmax(weights, slots());
    }
    show(i);
    policy_.observe(shape_, view_, memory_);
    while (slots() > policy_.room(shape_, i)) {
      int64_t slot = policy_.evict(shape_, view_, memory_);
      if (slot < 0 || slot >= slots()) throw Failure("policy: named no token to give up");
      give_up(slot, i);
      if (slots() == 0) break;
      show(i);
    }
  }

 private:
  int64_t slots() const { return static_cast<int64_t>(positions_.size()); }
  const int32_t* rounded_at_of(int64_t h) const {
    return cache_.k_rounded_at.const_data_ptr<int32_t>() + (view_.first_kv_head + h) * shape_.tokens;
  }
  bool reads_rounded(int64_t h, int64_t token, int64_t query) const {
    if (!cache_.k_rounded.defined()) return false;
    return !cache_.k_rounded_at.defined() || query >= rounded_at_of(h)[token];
  }

  void write_key(int64_t h, int64_t slot, bool rounded) {
    const at::Tensor& source = rounded ? cache_.k_rounded : cache_.k;
    const float* key = source.const_data_ptr<float>() +
                       (positions_[slot] * shape_.kv_heads + view_.first_kv_head + h) * shape_.head_dim;
    float* column = keys_.data() + h * shape_.head_dim * stride_ + slot;
    for (int64_t c = 0; c < shape_.head_dim; ++c) column[c * stride_] = key[c];
  }

  void show(int64_t i) {
    view_.query = i;
    view_.positions = positions_;
    view_.newest = slots() - 1;
    // The last slot is the newest until a token is given up and the last one moves.
    while (view_.newest > 0 && positions_[view_.newest] != i) --view_.newest;
  }

  void give_up(int64_t slot, int64_t i) {
    for (int64_t h = 0; h < view_.kv_heads; ++h) {
      evicted_at_[(view_.first_kv_head + h) * shape_.tokens + positions_[slot]] = static_cast<int32_t>(i + 1);
    }
    const int64_t last = slots() - 1;
    positions_[slot] = positions_[last];
    for (int64_t n = 0; n < numbers_; ++n) memory_[slot * numbers_ + n] = memory_[last * numbers_ + n];
    for (int64_t c = 0; c < view_.kv_heads * shape_.head_dim; ++c) {
      keys_[c * stride_ + slot] = keys_[c * stride_ + last];
    }
    for (int64_t r = 0; r < view_.heads; ++r) weights_[r * stride_ + slot] = weights_[r * stride_ + last];
    positions_.pop_back();
    memory_.resize(memory_.size() - static_cast<size_t>(numbers_));
  }

  const ContentPolicy& policy_;
  const CacheShape& shape_;
  const CachedTokens& cache_;
  int32_t* evicted_at_;
  int64_t stride_, numbers_;
  CacheView view_;
  std::vector<int32_t> positions_;
  std::vector<double> memory_;  ///< [slots, numbers_]
  std::vector<float> keys_;     ///< [kv_heads, head_dim, stride]
  std::vector<float> weights_;  ///< [heads, stride]
};

}  // namespace

at::Tensor scan(const ContentPolicy& policy, const CacheShape& shape, const at::Tensor& q,
                int64_t first_query, const CachedTokens& cache) {
  if (first_query > policy.same_until(shape) || first_query + q.size(0) != shape.tokens) {
    throw Failure(fmt::format("policy: given queries {} to {}, needs {} to {}", first_query,
                              first_query + q.size(0) - 1, policy.same_until(shape), shape.tokens - 1));
  }
  at::Tensor evicted_at = at::full({shape.kv_heads, shape.tokens}, kNever, at::kInt);
  int32_t* out = evicted_at.data_ptr<int32_t>();
  const float* queries = q.const_data_ptr<float>();
  const int64_t heads_per_set = policy.one_set_per_layer() ? shape.kv_heads : 1;
  at::parallel_for(0, shape.kv_heads / heads_per_set, 1, [&](int64_t begin, int64_t end) {
    for (int64_t set = begin; set < end; ++set) {
      LiveCache live(policy, shape, cache, set * heads_per_set, heads_per_set, out);
      for (int64_t j = 0; j < first_query; ++j) live.enter(j), live.age(j);
      for (int64_t i = first_query; i < shape.tokens; ++i) {
        live.enter(i);
        live.age(i);
        live.attend_from(i, queries + (i - first_query) * shape.query_heads * shape.head_dim);
      }
    }
  });
  return evicted_at;
}

}  // namespace kvcost
