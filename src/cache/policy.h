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
  /// How many tokens a KV head holds when the window is over, on average over heads. Default: the capacity,
  /// or all there are.
  virtual int64_t tokens_held(const CacheShape& shape) const;
};

/// A policy that decides by position alone: it returns the lifetimes outright, the same for every layer's
/// content.
class PositionPolicy : public Policy {
 public:
  /// Fills evicted_at, one KV head's [tokens]: query i sees token j when j <= i < evicted_at[j].
  virtual void lifetimes(const CacheShape& shape, int64_t kv_head, std::span<int32_t> evicted_at) const = 0;
};

/// One cache after its newest query's attention: a KV head's, or a whole layer's if heads share one set.
/// Slots are in no order, and tokens move between them when one is given up. A row of any array has room for
/// `stride` slots, of which the first slots() count.
struct CacheView {
  int64_t query = 0;                  ///< position of the newest token, which is in the cache too
  int64_t newest = 0;                 ///< the slot it is in
  int64_t first_head = 0, heads = 0;  ///< the query heads that read this cache
  int64_t first_kv_head = 0, kv_heads = 0;
  int64_t head_dim = 0;
  std::span<const int32_t> positions;  ///< [slots] the token in each slot
  int64_t stride = 0;
  /// [heads, stride] the newest query's softmax weights; nullptr if the policy does not read them.
  const float* weights = nullptr;
  /// [kv_heads, head_dim, stride] keys as attention reads them, at the positions it reads them at: channel c
  /// of KV head h (from 0) in slot s is keys[(h * head_dim + c) * stride + s].
  const float* keys = nullptr;

  int64_t slots() const { return static_cast<int64_t>(positions.size()); }
};

/// A policy that decides after every token by what is in the cache. It is told each query's weights and names
/// slots to give up, as a real cache would ask it to, and never sees a later token. It holds no state of its
/// own: what it wants to remember of a token goes into that token's `memory`, which is 0 when the token
/// enters: one number, slot s's at memory[s], or several where numbers_per_token() says so, the n-th of them
/// at memory[n * view.stride + s].
///
///   class H2o : public ContentPolicy {
///    public:
///     explicit H2o(Knobs& knobs) : ContentPolicy(knobs, Recent::half) {}
///     void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
///       add_mean_weights(view, memory);
///     }
///   };
class ContentPolicy : public Policy {
 public:
  int64_t capacity() const override { return capacity_; }
  /// Default: 0 if weights are read, as those of every query may count, else capacity - 1. A policy that only
  /// looks at the newest query's may return capacity - 1 too.
  int64_t same_until(const CacheShape&) const override;
  /// True: one set of tokens for a layer; false: each KV head has its own.
  virtual bool one_set_per_layer() const { return false; }
  /// False: no attention weights are computed for it.
  virtual bool reads_weights() const { return true; }
  /// How many numbers `memory` holds for a token.
  virtual int64_t numbers_per_token() const { return 1; }
  /// Called when a token has entered `slot`, and again when its key there has changed: it got rounded, or
  /// renumbered positions turned it. (A token that moves to another slot takes its memory along.)
  virtual void read_key(const CacheShape&, const CacheView&, int64_t /*slot*/, std::span<double>) const {}
  /// Called after every query's attention, before anything is given up.
  virtual void observe(const CacheShape&, const CacheView&, std::span<double> /*memory*/) const {}
  /// The slot to give up; must not be protected(). Default: the smallest memory (a token's first number),
  /// ties to the oldest.
  virtual int64_t evict(const CacheShape& shape, const CacheView& view, std::span<const double> memory) const;

  /// The newest `recent` tokens (always the newest one) and the first `sinks` stay. With nothing else left
  /// to give up (capacity 1), the newest goes.
  bool is_protected(const CacheView& view, int64_t slot) const;
  /// to[s] += the mean over the heads of the newest query's weight on slot s.
  static void add_mean_weights(const CacheView& view, std::span<double> to);

 protected:
  /// Default of the knob "recent": no more than the newest token, or half the capacity.
  enum class Recent { newest, half };
  /// Reads "capacity", "recent" and "sinks".
  explicit ContentPolicy(Knobs& knobs, Recent recent = Recent::newest);

 private:
  int64_t capacity_, recent_, sinks_;
};

/// A layer after some query's attention: all that has come so far, and nothing later.
struct LayerSoFar {
  int64_t tokens = 0;       ///< the newest is at tokens - 1
  int64_t first_query = 0;  ///< position of q's first row
  at::Tensor q;             ///< [tokens - first_query, query_heads, head_dim] after RoPE
  /// k, v and their rounding for [tokens]; its evicted_at is undefined. With renumbered positions the keys of
  /// tokens still kept are where the newest query finds them: as far behind it, at tokens - 1, as they are
  /// for attention.
  CachedTokens cache;
  at::Tensor cos, sin;  ///< [tokens, head_dim / 2] of the rotary embedding
};

/// A policy that decides now and then (once after the prompt, every n tokens), for a layer as a whole.
class IntervalPolicy : public Policy {
 public:
  /// The first query at or after `query` that a decision follows; kNever if there is none.
  virtual int64_t next_decision(const CacheShape& shape, int64_t query) const = 0;
  /// kept [kv_heads, layer.tokens]: 1 for the tokens still in the cache; makes 0 of those that leave.
  virtual void decide(const CacheShape& shape, const LayerSoFar& layer, std::span<uint8_t> kept) const = 0;

 protected:
  /// For one KV head: the `count` kept tokens with the smallest scores leave, the oldest of equals first.
  static void drop_smallest(std::span<const double> scores, int64_t count, std::span<uint8_t> kept);
};

/// A policy that knows what is to come: a reference, not a cache that could be built.
class ForesightPolicy : public Policy {
 public:
  bool looks_ahead() const final { return true; }
  /// Fills evicted_at, one KV head's [tokens], all "never" before, from the whole window's layer.
  virtual void lifetimes(const CacheShape& shape, const LayerSoFar& whole, int64_t kv_head,
                         std::span<int32_t> evicted_at) const = 0;
};

}  // namespace kvcost
