// Key norms: the token whose key is longest goes. Queries tend to look at short keys, so a norm stands in for
// attention that was never computed.
// Devoto et al., A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression, EMNLP 2024,
// arXiv 2406.11430.
// Each KV head evicts the largest L2 norm among the keys it keeps, read as attention reads them. RoPE turns a
// key and leaves its length alone.
// Unlike the authors' program, which cuts a cache that has grown to a share of itself and can leave layers
// whole: one token goes after every token, in every layer. Tokens can be made safe by position ("recent",
// "sinks"); by default only the newest is.
#include <algorithm>

#include "src/cache/registry.h"

namespace kvcost {

class KeyNorm : public ContentPolicy {
 public:
  explicit KeyNorm(Knobs& knobs)
      : ContentPolicy(knobs, {.recent = true, .sinks = true, .recent_is_half = false}) {}

  static Description describe() {
    return {"evicts the token with the largest key norm, for each KV head, after every token",
            "Devoto et al. 2024, arXiv 2406.11430",
            {{"capacity", "tokens", "most tokens a query sees, itself included"},
             {"recent", "tokens", "newest tokens that stay (0: only the newest one)"},
             {"sinks", "tokens", "first tokens that never leave (0)"}},
            {R"({"capacity": 7})", R"({"capacity": 8, "recent": 3, "sinks": 2})", R"({"capacity": 1})"}};
  }

  int64_t same_until(const CacheShape& shape) const override {
    return std::min(capacity() - 1, shape.tokens);
  }

  /// memory: minus the squared norm. Taken anew each time: rounding changes a key while it is kept.
  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    const int64_t slots = view.slots();
    std::fill(memory.begin(), memory.end(), 0.0);
    for (int64_t c = 0; c < view.head_dim; ++c) {
      const float* channel = view.keys + c * view.key_stride;
      for (int64_t s = 0; s < slots; ++s) memory[s] -= double(channel[s]) * double(channel[s]);
    }
  }
};

KVCOST_POLICY("keynorm", KeyNorm);

}  // namespace kvcost
