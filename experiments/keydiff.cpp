// Key difference: the token whose key is most like the others' goes, so that what is kept stays varied.
// Park et al., KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in
// Resource-Constrained Environments, 2025, arXiv 2504.15364.
// Each KV head takes the mean of the keys it keeps, each first scaled to length 1, and evicts the key with
// the largest cosine to that mean. Keys are after RoPE, as attention reads them; protected tokens count in
// the mean.
// Unlike the paper, which cuts after each block of a prompt: one token goes after every token. Tokens can be
// made safe by position ("recent", "sinks"); by default only the newest is.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "src/cache/registry.h"

namespace kvcost {

class KeyDiff : public ContentPolicy {
 public:
  explicit KeyDiff(Knobs& knobs)
      : ContentPolicy(knobs, {.recent = true, .sinks = true, .recent_is_half = false}) {}

  static Description describe() {
    return {"evicts the token whose key is most like the mean key, for each KV head, after every token",
            "Park et al. 2025, arXiv 2504.15364",
            {{"capacity", "tokens", "most tokens a query sees, itself included"},
             {"recent", "tokens", "newest tokens that stay (0: only the newest one)"},
             {"sinks", "tokens", "first tokens that never leave (0)"}},
            {R"({"capacity": 7})", R"({"capacity": 8, "recent": 3, "sinks": 2})", R"({"capacity": 1})"}};
  }

  int64_t same_until(const CacheShape& shape) const override {
    return std::min(capacity() - 1, shape.tokens);
  }

  /// memory: minus the cosine, times the length of the mean, which is the same for all. A key of length 0 is
  /// like nothing: its cosine is 0. Taken anew each time: rounding changes a key while it is kept.
  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    const std::vector<double> inverse = inverse_norms(view);
    std::fill(memory.begin(), memory.end(), 0.0);
    for (int64_t c = 0; c < view.head_dim; ++c) {
      const float* channel = view.keys + c * view.key_stride;
      const double mean = dot(channel, inverse) / static_cast<double>(view.slots());
      for (int64_t s = 0; s < view.slots(); ++s) memory[s] -= mean * double(channel[s]);
    }
    for (int64_t s = 0; s < view.slots(); ++s) memory[s] *= inverse[s];
  }

 private:
  static std::vector<double> inverse_norms(const CacheView& view) {
    std::vector<double> out(view.positions.size(), 0.0);
    for (int64_t c = 0; c < view.head_dim; ++c) {
      const float* channel = view.keys + c * view.key_stride;
      for (size_t s = 0; s < out.size(); ++s) out[s] += double(channel[s]) * double(channel[s]);
    }
    for (double& x : out) x = x > 0 ? 1 / std::sqrt(x) : 0;
    return out;
  }

  /// In several sums at once: a single one waits for each addition to end before the next.
  static double dot(const float* x, const std::vector<double>& y) {
    std::array<double, 8> sums = {};
    size_t s = 0;
    for (; s + sums.size() <= y.size(); s += sums.size()) {
      for (size_t l = 0; l < sums.size(); ++l) sums[l] += double(x[s + l]) * y[s + l];
    }
    for (; s < y.size(); ++s) sums[0] += double(x[s]) * y[s];
    double sum = 0;
    for (double part : sums) sum += part;
    return sum;
  }
};

KVCOST_POLICY("keydiff", KeyDiff);

}  // namespace kvcost
