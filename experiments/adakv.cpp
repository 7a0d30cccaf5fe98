// AdaKV: a layer's KV heads share one budget, and a head whose votes are spread wide gets more of it.
// Feng et al., Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM
// Inference, NeurIPS 2025, arXiv 2407.11550. Once the prompt is read, its tokens are scored as SnapKV scores
// them. All heads' scores are ranked together, and a head's count is how many of its tokens are among the
// best `heads` * (`capacity` - `observe`). It then keeps `alpha` of an even share and 1 - `alpha` of its
// count, rounded so that the layer's total is exact (the largest fractions up, of equals the earlier head's),
// by its own scores, and the observing tokens. Heads thus hold different numbers of tokens, `capacity` on
// average. Nothing is evicted before, and nothing after. Unlike the authors' program, which has a set for
// every query head: query heads that share a KV head share its tokens, by the mean of their pooled scores.
// Scores are not normalized, as there by default.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "src/cache/prompt_policy.h"

namespace kvcost {

class AdaKv : public PromptPolicy {
 public:
  explicit AdaKv(Knobs& knobs) : PromptPolicy(knobs, 7, "max"), alpha_(knobs.number("alpha", 0, 1, 0.2)) {}

  static Description describe() {
    std::vector<KnobHelp> knobs = prompt_knobs(7, "max");
    knobs.push_back({"alpha", "-", "share of the budget that is divided evenly (0.2)"});
    return {"once after the prompt: as snapkv, with one budget for a layer's KV heads; later tokens all stay",
            "Feng et al. 2024, arXiv 2407.11550",
            knobs,
            {R"({"capacity": 6, "observe": 3, "kernel": 3})",
             R"({"capacity": 5, "observe": 1, "pool": "avg", "alpha": 0})",
             R"({"capacity": 2, "observe": 2, "alpha": 1})"}};
  }

  void decide(const CacheShape& shape, const LayerSoFar& prompt,
              std::span<uint8_t> kept_tokens) const override {
    std::vector<std::vector<double>> scores;
    for (int64_t h = 0; h < shape.kv_heads; ++h) scores.push_back(votes(shape, prompt, h));
    const int64_t earlier = prompt.tokens - observe();
    const std::vector<int64_t> shares = shares_of(scores, earlier);
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      drop_smallest(scores[h], earlier - shares[h], kept_tokens.subspan(h * prompt.tokens, prompt.tokens),
                    prompt.ties_of(h));
    }
  }

 private:
  /// How many of the `earlier` tokens each head keeps.
  std::vector<int64_t> shares_of(const std::vector<std::vector<double>>& scores, int64_t earlier) const {
    struct Ranked {
      double score;
      int64_t token;
      size_t head;
    };
    const auto heads = static_cast<int64_t>(scores.size()), even = kept() - observe();
    std::vector<Ranked> all;
    for (size_t h = 0; h < scores.size(); ++h) {
      for (int64_t j = 0; j < earlier; ++j) {
        all.push_back({std::isnan(scores[h][j]) ? 0 : scores[h][j], j, h});
      }
    }
    std::sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.token != b.token ? a.token > b.token : a.head < b.head;
    });
    std::vector<int64_t> shares(scores.size(), 0), rest;
    for (int64_t n = 0; n < heads * even; ++n) ++shares[all[n].head];
    // In billionths of a token, so that whole numbers are whole.
    constexpr int64_t kParts = 1'000'000'000;
    const int64_t alpha = std::llround(alpha_ * kParts);
    for (int64_t& share : shares) {
      const int64_t parts = alpha * even + (kParts - alpha) * share;
      share = parts / kParts;
      rest.push_back(parts % kParts);
    }
    int64_t missing = heads * even - std::accumulate(shares.begin(), shares.end(), int64_t{0});
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
    for (size_t h : order) shares[h] += missing-- > 0 ? 1 : 0;
    return shares;
  }

  double alpha_;
};

KVCOST_POLICY("adakv", AdaKv);

}  // namespace kvcost
