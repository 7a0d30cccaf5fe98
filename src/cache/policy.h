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
  /// No query before this position sees anything but the full cache. Default: the capacity.
  virtual int64_t same_until(const CacheShape& shape) const;
};

/// A policy that decides by position alone: it returns the lifetimes outright, the same for every layer's
/// content.
class PositionPolicy : public Policy {
 public:
  /// Fills evicted_at, one KV head's [tokens]: query i sees token j when j <= i < evicted_at[j].
  virtual void lifetimes(const CacheShape& shape, int64_t kv_head, std::span<int32_t> evicted_at) const = 0;
};

}  // namespace kvcost
