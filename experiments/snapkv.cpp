// SnapKV: once the prompt is read, its last queries vote on which of its tokens stay.
// Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, NeurIPS 2024, arXiv 2404.14469.
// Each query head sums the softmax weights that the last `observe` queries of the prompt give to each token
// before them, and pools the sums along the text, so that a token's neighbours stay with it (an average
// counts zeros beyond the ends, as the authors' does). Each KV head takes the mean over the query heads that
// read it and keeps the best, with the observing tokens themselves: `capacity` tokens in all. Nothing is
// evicted before, and nothing after: the later tokens come on top of `capacity`.
// Unlike the authors' program, which stores a set for every query head: query heads that share a KV head
// share its tokens, by the mean of their pooled scores. The prompt is what comes before the scored tokens.
#include "src/cache/prompt_policy.h"

namespace kvcost {

class SnapKv : public PromptPolicy {
 public:
  explicit SnapKv(Knobs& knobs) : PromptPolicy(knobs, 5, "avg") {}

  static Description describe() {
    return {"once after the prompt: keeps what its last queries attended to; later tokens all stay",
            "Li et al. 2024, arXiv 2404.14469",
            prompt_knobs(5, "avg"),
            {R"({"capacity": 6, "observe": 3, "kernel": 3})",
             R"({"capacity": 5, "observe": 1, "pool": "max"})", R"({"capacity": 2, "observe": 2})"}};
  }

  void decide(const CacheShape& shape, const LayerSoFar& prompt,
              std::span<uint8_t> kept_tokens) const override {
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      drop_smallest(votes(shape, prompt, h), prompt.tokens - kept(),
                    kept_tokens.subspan(h * prompt.tokens, prompt.tokens), prompt.ties_of(h));
    }
  }
};

KVCOST_POLICY("snapkv", SnapKv);

}  // namespace kvcost
