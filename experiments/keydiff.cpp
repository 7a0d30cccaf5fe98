// Key difference: the token whose key is most like the others' goes, so that what is kept stays varied.
// Park et al., KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in
// Resource-Constrained Environments, 2025, arXiv 2504.15364.
// Each KV head takes the mean of the keys it keeps, each first scaled to length 1, and evicts the key with
// the largest cosine to that mean. Keys are after RoPE, as attention reads them; protected tokens count in
// the mean.
// Unlike the paper, which cuts after each block of a prompt: one token goes after every token. Tokens can be
// made safe by position ("recent", "sinks"); by default only the newest is.
#include <cmath>

#include "src/cache/registry.h"
#include "src/model/simd.h"

namespace kvcost {
namespace {

/// to[s] = -(mean of the keys, each times its `inverse` length) . key s, times its inverse length.
KVCOST_MULTIARCH void compare(const float* keys, int64_t head_dim, int64_t stride, int64_t slots,
                              const double* inverse, double* to) {
  constexpr int64_t kLanes = 16;  // one sum would wait for each addition to end before the next
  for (int64_t s = 0; s < slots; ++s) to[s] = 0;
  for (int64_t c = 0; c < head_dim; ++c) {
    const float* channel = keys + c * stride;
    double sums[kLanes] = {}, mean = 0;
    int64_t s = 0;
    for (; s + kLanes <= slots; s += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) sums[l] += static_cast<double>(channel[s + l]) * inverse[s + l];
    }
    for (; s < slots; ++s) mean += static_cast<double>(channel[s]) * inverse[s];
    for (double sum : sums) mean += sum;
    mean /= static_cast<double>(slots);
    for (s = 0; s < slots; ++s) to[s] -= mean * static_cast<double>(channel[s]);
  }
  for (int64_t s = 0; s < slots; ++s) to[s] *= inverse[s];
}

}  // namespace

class KeyDiff : public ContentPolicy {
 public:
  explicit KeyDiff(Knobs& knobs) : ContentPolicy(knobs) {}

  static Description describe() {
    return {"per token: evicts the one whose key is most like the mean key, for each KV head",
            "Park et al. 2025, arXiv 2504.15364",
            content_knobs(),
            {R"({"capacity": 7})", R"({"capacity": 8, "recent": 3, "sinks": 2})", R"({"capacity": 1})"}};
  }

  bool reads_weights() const override { return false; }
  int64_t numbers_per_token() const override { return 2; }

  /// The second number: one over the key's length. A key of length 0 is like nothing: its cosine is 0.
  void read_key(const CacheShape&, const CacheView& view, int64_t slot,
                std::span<double> memory) const override {
    const double squared = view.squared_key_length(slot);
    memory[view.stride + slot] = squared > 0 ? 1 / std::sqrt(squared) : 0;
  }

  /// The first: minus the cosine, times the length of the mean, which is the same for all.
  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    compare(view.keys, view.head_dim, view.stride, view.slots(), memory.data() + view.stride, memory.data());
  }
};

KVCOST_POLICY("keydiff", KeyDiff);

}  // namespace kvcost
