#include "src/cache/prompt_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "src/cache/weights.h"

namespace kvcost {
namespace {

constexpr int64_t kDefaultObserve = 32;

}  // namespace

PromptPolicy::PromptPolicy(Knobs& knobs, int64_t default_kernel, const char* default_pool)
    : kept_(knobs.integer("capacity", 1, kNever)) {
  if (!knobs.has("observe") && kept_ < kDefaultObserve) {
    knobs.refuse("observe", fmt::format("an integer from 1 to {} ({} if not given)", kept_, kDefaultObserve));
  }
  observe_ = knobs.integer("observe", 1, kept_, kDefaultObserve);
  kernel_ = knobs.integer("kernel", 1, kNever, default_kernel);
  if (kernel_ % 2 == 0) knobs.refuse("kernel", "an odd integer: a pool has a middle");
  max_ = knobs.choice("pool", {"avg", "max"}, default_pool) == "max";
}

std::vector<double> PromptPolicy::votes(const CacheShape& shape, const LayerSoFar& prompt,
                                        int64_t kv_head) const {
  const int64_t group = shape.query_heads / shape.kv_heads, earlier = prompt.tokens - observe_;
  std::vector<double> scores(static_cast<size_t>(prompt.tokens), std::numeric_limits<double>::infinity());
  std::fill_n(scores.begin(), earlier, 0.0);
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const at::Tensor weights = full_weights(shape, prompt, h, earlier, observe_);
    std::vector<double> sums(static_cast<size_t>(earlier), 0.0);
    for (int64_t r = 0; r < observe_; ++r) {
      const float* row = weights.const_data_ptr<float>() + r * prompt.tokens;
      for (int64_t j = 0; j < earlier; ++j) sums[j] += static_cast<double>(row[j]);
    }
    for (int64_t j = 0; j < earlier; ++j) scores[j] += pooled(sums, j) / static_cast<double>(group);
  }
  return scores;
}

/// avg counts zeros beyond the ends, as the authors' program does.
double PromptPolicy::pooled(const std::vector<double>& sums, int64_t middle) const {
  const int64_t reach = kernel_ / 2;
  const int64_t first = std::max<int64_t>(0, middle - reach);
  const int64_t last = std::min<int64_t>(static_cast<int64_t>(sums.size()) - 1, middle + reach);
  double sum = 0, most = 0;  // weights are never negative
  for (int64_t j = first; j <= last; ++j) sum += sums[j], most = std::max(most, sums[j]);
  return max_ ? most : sum / static_cast<double>(kernel_);
}

int64_t PromptPolicy::same_until(const CacheShape& shape) const {
  return shape.prompt <= kept_ ? shape.tokens : std::min(shape.prompt - observe_, shape.tokens);
}

int64_t PromptPolicy::tokens_held(const CacheShape& shape) const {
  return shape.tokens - std::max<int64_t>(0, std::min(shape.prompt, shape.tokens) - kept_);
}

int64_t PromptPolicy::next_decision(const CacheShape& shape, int64_t query) const {
  return query < shape.prompt && shape.prompt > kept_ ? shape.prompt - 1 : kNever;
}

std::vector<KnobHelp> PromptPolicy::prompt_knobs(int64_t default_kernel, const char* default_pool) {
  return {{"capacity", "tokens", "tokens kept at the prompt's end, later ones come on top"},
          {"observe", "tokens", fmt::format("last prompt tokens, which vote and stay ({})", kDefaultObserve)},
          {"kernel", "tokens", fmt::format("odd width of the pool over neighbours ({})", default_kernel)},
          {"pool", "-", fmt::format("avg or max ({}); avg counts zeros beyond the ends", default_pool)}};
}

}  // namespace kvcost
