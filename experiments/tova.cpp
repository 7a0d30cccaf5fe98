// Token omission via attention: what the newest query weighs least goes.
// Oren et al., Transformers are Multi-State RNNs, EMNLP 2024, arXiv 2401.06104.
// One set of tokens for a whole layer: the newest query's softmax weights are averaged over all query heads,
// and the token with the smallest mean is evicted. There is no history, and by default no window
// ("recent") and no first tokens ("sinks") that are safe; sinks survive because queries keep looking at them.
// Unlike the authors' program: the newest token itself is safe (there it may go at once), and the cache is
// bounded from the first token on, not cut at once after a prompt read whole.
#include <algorithm>

#include "src/cache/registry.h"

namespace kvcost {

class Tova : public ContentPolicy {
 public:
  explicit Tova(Knobs& knobs) : ContentPolicy(knobs) {}

  static Description describe() {
    return {"per token: evicts the one the newest query weighs least, one set for a layer",
            "Oren et al. 2024, arXiv 2401.06104",
            content_knobs(),
            {R"({"capacity": 7})", R"({"capacity": 8, "recent": 3, "sinks": 2})", R"({"capacity": 1})"}};
  }

  int64_t same_until(const CacheShape& shape) const override {
    return std::min(capacity() - 1, shape.tokens);
  }
  bool one_set_per_layer() const override { return true; }

  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    std::fill(memory.begin(), memory.end(), 0.0);
    add_mean_weights(view, memory);
  }
};

KVCOST_POLICY("tova", Tova);

}  // namespace kvcost
