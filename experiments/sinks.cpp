// The first `sinks` tokens and the newest ones: a window that keeps the attention sinks.
// Xiao et al., Efficient Streaming Language Models with Attention Sinks, ICLR 2024, arXiv 2309.17453.
// The paper renumbers what is kept; here that is asked for with "positions": "cache", of any policy.
#include <algorithm>

#include "src/cache/registry.h"

namespace kvcost {

class Sinks : public PositionPolicy {
 public:
  explicit Sinks(Knobs& knobs) : capacity_(knobs.integer("capacity", 1, kNever)) {
    if (!knobs.has("sinks") && capacity_ <= kDefaultSinks) {
      knobs.refuse("sinks", fmt::format("an integer from 0 to {} (4 if not given)", capacity_ - 1));
    }
    sinks_ = knobs.integer("sinks", 0, capacity_ - 1, kDefaultSinks);
  }

  static Description describe() {
    return {"per token: keeps the first `sinks` tokens and the newest `capacity` - `sinks`",
            "Xiao et al. 2024, arXiv 2309.17453",
            {{"capacity", "tokens", "most tokens a query sees, itself included"},
             {"sinks", "tokens", "first tokens that never leave (4)"}},
            {R"({"capacity": 9})", R"({"capacity": 2, "sinks": 1})", R"({"capacity": 6, "sinks": 0})"}};
  }

  int64_t capacity() const override { return capacity_; }

  void lifetimes(const CacheShape&, int64_t, std::span<int32_t> evicted_at) const override {
    for (size_t j = 0; j < evicted_at.size(); ++j) {
      int64_t position = static_cast<int64_t>(j);
      int64_t gone = position < sinks_ ? kNever : std::min<int64_t>(kNever, position + capacity_ - sinks_);
      evicted_at[j] = static_cast<int32_t>(gone);
    }
  }

 private:
  static constexpr int64_t kDefaultSinks = 4;
  int64_t capacity_, sinks_;
};

KVCOST_POLICY("sinks", Sinks);

}  // namespace kvcost
