#include "src/cache/scan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/error.h"
#include "src/model/softmax.h"

namespace kvcost {
namespace {

/// Room for `slots` in whole blocks, an odd number of them: a power of two would put all channels of a slot
/// into the same few places of the processor's cache.
int64_t stride_of(int64_t slots) {
  const int64_t blocks = (slots + kScoreBlock - 1) / kScoreBlock;
  return (blocks | 1) * kScoreBlock;
}

/// The tokens one set of KV heads keeps, as they stand at one step.
class LiveCache {
 public:
  LiveCache(const ContentPolicy& policy, const CacheShape& shape, const CachedTokens& cache,
            int64_t first_kv_head, int64_t kv_heads, int32_t* evicted_at, TieCount* ties)
      : policy_(policy),
        shape_(shape),
        cache_(cache),
        evicted_at_(evicted_at),
        ties_(ties),
        stride_(stride_of(std::min<int64_t>(policy.capacity(), shape.tokens))),
        numbers_(policy.numbers_per_token()) {
    const int64_t group = shape.query_heads / shape.kv_heads;
    view_.first_kv_head = first_kv_head, view_.kv_heads = kv_heads;
    view_.first_head = first_kv_head * group, view_.heads = kv_heads * group;
    view_.head_dim = shape.head_dim;
    keys_.assign(static_cast<size_t>(kv_heads * shape.head_dim * stride_), 0.0f);
    memory_.assign(static_cast<size_t>(numbers_ * stride_), 0.0);
    positions_.reserve(static_cast<size_t>(stride_));
    view_.stride = stride_, view_.keys = keys_.data();
    if (!policy.reads_weights()) return;
    weights_.assign(static_cast<size_t>(view_.heads * stride_), 0.0f);
    view_.weights = weights_.data();
    query_.resize(static_cast<size_t>(group * shape.head_dim));
  }

  /// Token `i` enters, having no room being the caller's fault; what becomes rounded now is rounded.
  void enter(int64_t i) {
    positions_.push_back(static_cast<int32_t>(i));
    const int64_t slot = slots() - 1;
    if (slot >= stride_) throw Failure("policy: more tokens than its capacity");
    for (int64_t n = 0; n < numbers_; ++n) memory_[n * stride_ + slot] = 0;
    show(i);
    for (int64_t h = 0; h < view_.kv_heads; ++h) write_key(h, slot, reads_rounded(h, i, i));
    policy_.read_key(shape_, view_, slot, memory_);
    if (!cache_.k_rounded.defined() || !cache_.k_rounded_at.defined()) return;
    for (int64_t h = 0; h < view_.kv_heads; ++h) {
      const int32_t* rounded_at = rounded_at_of(h);
      for (int64_t s = 0; s < slots(); ++s) {
        if (rounded_at[positions_[s]] != i) continue;
        write_key(h, s, true);
        policy_.read_key(shape_, view_, s, memory_);
      }
    }
  }

  /// Query i attends, its own token being the newest. q [query_heads, head_dim].
  void attend(const float* q) {
    const int64_t d = shape_.head_dim, group = view_.heads / view_.kv_heads;
    const float scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(d)));
    for (int64_t h = 0; h < view_.kv_heads; ++h) {
      const float* rows = q + (view_.first_head + h * group) * d;
      for (int64_t x = 0; x < group * d; ++x) query_[x] = rows[x] * scale;
      float* weights = weights_.data() + h * group * stride_;
      score(query_.data(), static_cast<int>(group), static_cast<int>(d), keys_.data() + h * d * stride_,
            stride_, static_cast<int>(slots()), weights);
      for (int64_t r = 0; r < group; ++r) softmax(weights + r * stride_, static_cast<int>(slots()));
    }
  }

  /// After query i's attention: the policy is told, and gives up what has no room.
  void decide(int64_t i) {
    policy_.observe(shape_, view_, memory_);
    // What leaves after the last query, no query misses.
    view_.ties = i + 1 < shape_.tokens ? ties_ : nullptr;
    while (slots() > 0 && slots() >= policy_.capacity()) {
      int64_t slot = policy_.evict(shape_, view_, memory_);
      if (slot < 0 || slot >= slots()) throw Failure("policy: named no token to give up");
      give_up(slot, i);
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
    move_last(memory_, slot, last), move_last(keys_, slot, last), move_last(weights_, slot, last);
    positions_.pop_back();
  }

  template <class Number>
  void move_last(std::vector<Number>& rows, int64_t slot, int64_t last) {
    for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(stride_)) {
      rows[row + slot] = rows[row + last];
    }
  }

  const ContentPolicy& policy_;
  const CacheShape& shape_;
  const CachedTokens& cache_;
  int32_t* evicted_at_;
  TieCount* ties_;
  int64_t stride_, numbers_;
  CacheView view_;
  std::vector<int32_t> positions_;
  std::vector<double> memory_;  ///< [numbers_, stride]
  std::vector<float> keys_;     ///< [kv_heads, head_dim, stride]
  std::vector<float> weights_;  ///< [heads, stride], or nothing
  std::vector<float> query_;    ///< [group, head_dim] in units of log 2
};

}  // namespace

at::Tensor scan(const ContentPolicy& policy, const CacheShape& shape, const at::Tensor& q,
                int64_t first_query, const CachedTokens& cache, TieCount* ties) {
  const int64_t start = policy.same_until(shape);
  if (policy.reads_weights() && (first_query > start || first_query + q.size(0) != shape.tokens)) {
    throw Failure(fmt::format("policy: given queries {} to {}, needs {} to {}", first_query,
                              first_query + q.size(0) - 1, start, shape.tokens - 1));
  }
  at::Tensor evicted_at = at::full({shape.kv_heads, shape.tokens}, kNever, at::kInt);
  int32_t* out = evicted_at.data_ptr<int32_t>();
  const float* queries = q.const_data_ptr<float>();
  const int64_t heads_per_set = policy.one_set_per_layer() ? shape.kv_heads : 1;
  at::parallel_for(0, shape.kv_heads / heads_per_set, 1, [&](int64_t begin, int64_t end) {
    for (int64_t set = begin; set < end; ++set) {
      LiveCache live(policy, shape, cache, set * heads_per_set, heads_per_set, out,
                     ties == nullptr ? nullptr : ties + set * heads_per_set);
      for (int64_t i = 0; i < shape.tokens; ++i) {
        live.enter(i);
        if (i < start) continue;
        if (policy.reads_weights()) {
          live.attend(queries + (i - first_query) * shape.query_heads * shape.head_dim);
        }
        live.decide(i);
      }
    }
  });
  return evicted_at;
}

}  // namespace kvcost
