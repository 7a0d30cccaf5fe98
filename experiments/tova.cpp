// Token omission via attention: what the newest query weighs least goes.
// Oren et al., Transformers are Multi-State RNNs, EMNLP 2024, arXiv 2401.06104.
// One set of tokens for a whole layer: the newest query's softmax weights are averaged over all query heads,
// and the token with the smallest mean is evicted. There is no history and no window; sinks survive because
// queries keep looking at them.
// Unlike the authors' program: the newest token itself is safe (there it may go at once), and the cache is
// bounded from the first token on, not cut at once after a prompt read whole.
#include <algorithm>

#include "src/cache/registry.h"

namespace kvcost {

class Tova : public ContentPolicy {
 public:
  explicit Tova(Knobs& knobs)
      : ContentPolicy(knobs, {.recent = false, .sinks = false, .recent_is_half = false}) {}

  static Description describe() {
    return {"evicts the token the newest query weighs least, one set for a layer, after every token",
            "Oren et al. 2024, arXiv 2401.06104",
            {{"capacity", "tokens", "most tokens a query sees, itself included"}},
            {R"({"capacity": 7})", R"({"capacity": 2})", R"({"capacity": 1})"}};
  }

  int64_t same_until(const CacheShape& shape) const override {
    return std::min(capacity() - 1, shape.tokens);
  }
  bool one_set_per_layer() const override { return true; }

  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    for (int64_t s = 0; s < view.slots(); ++s) memory[s] = mean_weight(view, s);
  }
};

KVCOST_POLICY("tova", Tova);

}  // namespace kvcost
