// Every token stays: the cache that all others are compared with.
#include <algorithm>

#include "src/cache/registry.h"

namespace kvcost {

class Full : public PositionPolicy {
 public:
  explicit Full(Knobs&) {}

  static Description describe() { return {"every token stays", "-", {}, {"{}"}}; }

  int64_t capacity() const override { return kNever; }

  void lifetimes(const CacheShape&, int64_t, std::span<int32_t> evicted_at) const override {
    std::fill(evicted_at.begin(), evicted_at.end(), kNever);
  }
};

KVCOST_POLICY("full", Full);

}  // namespace kvcost
