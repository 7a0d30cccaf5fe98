// Heavy hitters: a token's score is all the attention it has drawn so far, and the one that drew least goes.
// Zhang et al., H2O: Heavy-Hitter Oracle for Efficient Generative Inference of LLMs, NeurIPS 2023,
// arXiv 2306.14048.
// Each KV head sums, query by query, the softmax weights given to every token it keeps, averaged over the
// query heads that read it; the `recent` newest tokens are safe, so that a new one has time to be noticed.
// The authors' programs differ among themselves; one even sums over queries yet to come. Here, as in the one
// that really drops: weights are those over the tokens kept, and an evicted token's sum is gone with it.
// Unlike it: the cache is bounded from the first token on, not only after a prompt read whole, and grouped
// heads, which it does not have, share their mean.
#include "src/cache/registry.h"

namespace kvcost {

class H2o : public ContentPolicy {
 public:
  explicit H2o(Knobs& knobs) : ContentPolicy(knobs, Recent::half) {}

  static Description describe() {
    return {"per token: evicts the one with the least attention so far, for each KV head",
            "Zhang et al. 2023, arXiv 2306.14048",
            content_knobs({}, "half the capacity"),
            {R"({"capacity": 8})", R"({"capacity": 5, "recent": 0, "sinks": 1})", R"({"capacity": 1})"}};
  }

  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    add_mean_weights(view, memory);
  }
};

KVCOST_POLICY("h2o", H2o);

}  // namespace kvcost
