// The last `capacity` tokens, the newest included: the plain sliding window.
#include <algorithm>

#include "src/cache/registry.h"

namespace kvcost {

class Window : public PositionPolicy {
 public:
  explicit Window(Knobs& knobs) : capacity_(knobs.integer("capacity", 1, kNever)) {}

  static Description describe() {
    return {"per token: keeps the last `capacity` tokens",
            "-",
            {{"capacity", "tokens", "most tokens a query sees, itself included"}},
            {R"({"capacity": 1})", R"({"capacity": 7})"}};
  }

  int64_t capacity() const override { return capacity_; }

  void lifetimes(const CacheShape&, int64_t, std::span<int32_t> evicted_at) const override {
    for (size_t j = 0; j < evicted_at.size(); ++j) {
      evicted_at[j] = static_cast<int32_t>(std::min<int64_t>(kNever, int64_t(j) + capacity_));
    }
  }

 private:
  int64_t capacity_;
};

KVCOST_POLICY("window", Window);

}  // namespace kvcost
