// Key norms: the token whose key is longest goes. Queries tend to look at short keys, so a norm stands in for
// attention that was never computed.
// Devoto et al., A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression, EMNLP 2024,
// arXiv 2406.11430.
// Each KV head evicts the largest L2 norm among the keys it keeps, read as attention reads them. RoPE turns a
// key and leaves its length alone.
// Unlike the authors' program, which cuts a cache that has grown to a share of itself and can leave layers
// whole: one token goes after every token, in every layer. Tokens can be made safe by position ("recent",
// "sinks"); by default only the newest is.
#include "src/cache/registry.h"

namespace kvcost {

class KeyNorm : public ContentPolicy {
 public:
  explicit KeyNorm(Knobs& knobs) : ContentPolicy(knobs) {}

  static Description describe() {
    return {"per token: evicts the one with the largest key norm, for each KV head",
            "Devoto et al. 2024, arXiv 2406.11430",
            content_knobs(),
            {R"({"capacity": 7})", R"({"capacity": 8, "recent": 3, "sinks": 2})", R"({"capacity": 1})"}};
  }

  bool reads_weights() const override { return false; }

  /// memory: minus the squared norm.
  void read_key(const CacheShape&, const CacheView& view, int64_t slot,
                std::span<double> memory) const override {
    memory[slot] = -view.squared_key_length(slot);
  }
};

KVCOST_POLICY("keynorm", KeyNorm);

}  // namespace kvcost
