// SnapKV: once the prompt is read, its last queries vote on which of its tokens stay.
// Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, NeurIPS 2024, arXiv 2404.14469.
// Each query head sums the softmax weights that the last `observe` queries of the prompt give to each token
// before them, and pools the sums along the text, so that a token's neighbours stay with it (an average
// counts zeros beyond the ends, as the authors' does). Each KV head takes the mean over the query heads that
// read it and keeps the best, with the observing tokens themselves: `capacity` tokens in all. Nothing is
// evicted before, and nothing after: the later tokens come on top of `capacity`.
// Unlike the authors' program, which stores a set for every query head: query heads that share a KV head
// share its tokens, by the mean of their pooled scores. The prompt is what comes before the scored tokens.
#include <algorithm>
#include <limits>
#include <vector>

#include "src/cache/registry.h"

namespace kvcost {

class SnapKv : public ContentPolicy {
 public:
  explicit SnapKv(Knobs& knobs)
      : ContentPolicy(knobs, {.recent = false, .sinks = false, .recent_is_half = false}) {
    const int64_t most = kept();
    if (!knobs.has("observe") && most < kDefaultObserve) {
      knobs.refuse("observe",
                   fmt::format("an integer from 1 to {} ({} if not given)", most, kDefaultObserve));
    }
    observe_ = knobs.integer("observe", 1, most, kDefaultObserve);
    kernel_ = knobs.integer("kernel", 1, kNever, 5);
    if (kernel_ % 2 == 0) knobs.refuse("kernel", "an odd integer: a pool has a middle");
    max_ = knobs.choice("pool", {"avg", "max"}, "avg") == "max";
  }

  static Description describe() {
    return {"after the prompt, once, keeps what its last queries attended to; later tokens all stay",
            "Li et al. 2024, arXiv 2404.14469",
            {{"capacity", "tokens", "tokens kept at the prompt's end; later ones come on top"},
             {"observe", "tokens", "last prompt tokens, which vote and stay (32)"},
             {"kernel", "tokens", "odd width of the pool over neighbours (5)"},
             {"pool", "-", "avg or max (avg); avg counts zeros beyond the ends"}},
            {R"({"capacity": 6, "observe": 3, "kernel": 3})",
             R"({"capacity": 5, "observe": 1, "pool": "max"})", R"({"capacity": 2, "observe": 2})"}};
  }

  int64_t capacity() const override { return kNever; }
  int64_t same_until(const CacheShape& shape) const override {
    if (shape.prompt <= kept()) return shape.tokens;
    return std::min(shape.prompt - observe_, shape.tokens);
  }
  int64_t room(const CacheShape& shape, int64_t query) const override {
    return query == shape.prompt - 1 ? kept() : kNever;
  }
  /// One sum for each query head of the group; at the prompt's end the first becomes the score.
  int64_t numbers_per_token(const CacheShape& shape) const override {
    return shape.query_heads / shape.kv_heads;
  }

  void observe(const CacheShape& shape, const CacheView& view, std::span<double> memory) const override {
    if (view.query < shape.prompt - observe_ || view.query >= shape.prompt) return;
    for (int64_t s = 0; s < view.slots(); ++s) {
      for (int64_t h = 0; h < view.heads; ++h) {
        memory[s * view.heads + h] += view.weights[h * view.weight_stride + s];
      }
    }
    if (view.query == shape.prompt - 1) score(view, memory);
  }

 private:
  static constexpr int64_t kDefaultObserve = 32;

  int64_t kept() const { return ContentPolicy::capacity(); }

  /// Sums -> scores. All the prompt's tokens are still there.
  void score(const CacheView& view, std::span<double> memory) const {
    const int64_t earlier = std::max<int64_t>(0, view.slots() - observe_);
    std::vector<int64_t> slot_of(view.positions.size());
    for (int64_t s = 0; s < view.slots(); ++s) slot_of[view.positions[s]] = s;
    std::vector<double> sums(static_cast<size_t>(earlier)), scores(sums.size(), 0.0);
    for (int64_t h = 0; h < view.heads; ++h) {
      for (int64_t j = 0; j < earlier; ++j) sums[j] = memory[slot_of[j] * view.heads + h];
      for (int64_t j = 0; j < earlier; ++j) scores[j] += pooled(sums, j) / static_cast<double>(view.heads);
    }
    for (int64_t j = 0; j < view.slots(); ++j) {
      memory[slot_of[j] * view.heads] = j < earlier ? scores[j] : std::numeric_limits<double>::infinity();
    }
  }

  double pooled(const std::vector<double>& sums, int64_t middle) const {
    const int64_t reach = kernel_ / 2;
    const int64_t first = std::max<int64_t>(0, middle - reach);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(sums.size()) - 1, middle + reach);
    double sum = 0, most = 0;  // weights are never negative
    for (int64_t j = first; j <= last; ++j) sum += sums[j], most = std::max(most, sums[j]);
    return max_ ? most : sum / static_cast<double>(kernel_);
  }

  int64_t observe_, kernel_;
  bool max_;
};

KVCOST_POLICY("snapkv", SnapKv);

}  // namespace kvcost
