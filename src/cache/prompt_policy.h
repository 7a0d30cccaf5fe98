#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/cache/policy.h"
#include "src/cache/registry.h"

namespace kvcost {

/// A policy that cuts the prompt once, after its last query, by what its last tokens vote for (SnapKV's
/// score). Knobs: "capacity", tokens kept at the prompt's end, later ones come on top; "observe", "kernel",
/// "pool".
class PromptPolicy : public IntervalPolicy {
 public:
  int64_t capacity() const override { return kNever; }
  int64_t same_until(const CacheShape& shape) const override;
  int64_t tokens_held(const CacheShape& shape) const override;
  int64_t next_decision(const CacheShape& shape, int64_t query) const override;

 protected:
  PromptPolicy(Knobs& knobs, int64_t default_kernel, const char* default_pool);
  static std::vector<KnobHelp> prompt_knobs(int64_t default_kernel, const char* default_pool);

  int64_t kept() const { return kept_; }
  /// Queries that vote, the prompt's last; they stay.
  int64_t observe() const { return observe_; }
  /// One score for each prompt token, infinity for the observing ones: the weights of the observing queries
  /// summed for each query head, pooled over the earlier tokens, averaged over the heads that read `kv_head`.
  std::vector<double> votes(const CacheShape& shape, const LayerSoFar& prompt, int64_t kv_head) const;

 private:
  double pooled(const std::vector<double>& sums, int64_t middle) const;

  int64_t kept_, observe_, kernel_;
  bool max_;
};

}  // namespace kvcost
