#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/cache/knobs.h"
#include "src/model/attention.h"

namespace kvcost {

/// What a policy may know before it sees any token.
struct CacheShape {
  int layers = 0, layer = 0;
  int64_t query_heads = 0, kv_heads = 0, head_dim = 0;
  int64_t tokens = 0;  ///< T, length of the window
  int64_t prompt = 0;  ///< tokens before the scored ones
};

/// An eviction policy. Constructed from its knobs (`Class(Knobs&)`), registered by KVCOST_POLICY.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Most tokens a query may attend to, itself included; kNever = unbounded.
  virtual int64_t capacity() const = 0;
  /// No query before this position sees anything but the full cache, and the policy needs to be told nothing
  /// of what came before it: a pass may start here. Default: the capacity.
  virtual int64_t same_until(const CacheShape& shape) const;
  /// True if decisions use later tokens (an oracle): exempt from "nothing kept depends on later tokens".
  virtual bool looks_ahead() const { return false; }
};

/// A policy that decides by position alone: it returns the lifetimes outright, the same for every layer's
/// content.
class PositionPolicy : public Policy {
 public:
  /// Fills evicted_at, one KV head's [tokens]: query i sees token j when j <= i < evicted_at[j].
  virtual void lifetimes(const CacheShape& shape, int64_t kv_head, std::span<int32_t> evicted_at) const = 0;
};

/// One cache after its newest query's attention: a KV head's, or a whole layer's if heads share one set.
/// Slots are in no order, and tokens move between them when one is given up.
struct CacheView {
  int64_t query = 0;                  ///< position of the newest token, which is in the cache too
  int64_t newest = 0;                 ///< the slot it is in
  int64_t first_head = 0, heads = 0;  ///< the query heads that read this cache
  int64_t first_kv_head = 0, kv_heads = 0;
  int64_t head_dim = 0;
  std::span<const int32_t> positions;  ///< [slots] the token in each slot
  /// The newest query's softmax weights. Head h (from 0) reads slot s with weights[h * weight_stride + s].
  const float* weights = nullptr;
  int64_t weight_stride = 0;
  /// Keys as attention reads them: channel c of KV head h (from 0) in slot s is
  /// keys[(h * head_dim + c) * key_stride + s].
  const float* keys = nullptr;
  int64_t key_stride = 0;

  int64_t slots() const { return static_cast<int64_t>(positions.size()); }
};

/// A policy that decides by what is in the cache. It is told each query's weights and names slots to give up,
/// as a real cache would ask it to, and never sees a later token. It holds no state of its own: what it wants
/// to remember of a token goes into that token's `memory`, which is 0 when the token enters: a number, or n
/// of them where numbers_per_token() says so, slot s's from memory[s * n] on.
///
///   class H2o : public ContentPolicy {
///    public:
///     explicit H2o(Knobs& knobs) : ContentPolicy(knobs, {.sinks = false, .recent_is_half = true}) {}
///     void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
///       for (int64_t s = 0; s < view.slots(); ++s) memory[s] += mean_weight(view, s);
///     }
///   };
class ContentPolicy : public Policy {
 public:
  int64_t capacity() const override { return capacity_; }
  /// 0: weights of every query count. A policy that only looks at the newest query's may return capacity - 1.
  int64_t same_until(const CacheShape&) const override { return 0; }
  /// True: one set of tokens for a layer; false: each KV head has its own.
  virtual bool one_set_per_layer() const { return false; }
  /// How many numbers `memory` holds for a token.
  virtual int64_t numbers_per_token(const CacheShape&) const { return 1; }
  /// Called after every query's attention, before anything is given up. memory: [slots, numbers_per_token].
  virtual void observe(const CacheShape& shape, const CacheView& view, std::span<double> memory) const = 0;
  /// The slot to give up; must not be protected(). Default: the smallest memory (a token's first number),
  /// ties to the oldest.
  virtual int64_t evict(const CacheShape& shape, const CacheView& view, std::span<const double> memory) const;
  /// How many tokens the cache may go on with after `query`. Default: one less than the capacity.
  virtual int64_t room(const CacheShape&, int64_t) const { return capacity_ - 1; }

  /// The newest `recent` tokens (always the newest one) and the first `sinks` stay. With nothing else left
  /// to give up (capacity 1), the newest goes.
  bool is_protected(const CacheView& view, int64_t slot) const;
  /// Mean over the heads of the newest query's weight on `slot`.
  static double mean_weight(const CacheView& view, int64_t slot);

 protected:
  /// Which of "recent" and "sinks" the policy takes as knobs, and their defaults.
  struct Protects {
    bool recent = true, sinks = true;
    bool recent_is_half = false;  ///< default of "recent": half the capacity, otherwise 0
  };
  ContentPolicy(Knobs& knobs, Protects protects);

 private:
  int64_t capacity_, recent_ = 0, sinks_ = 0;
};

}  // namespace kvcost
