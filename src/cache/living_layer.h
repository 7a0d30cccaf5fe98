#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "src/cache/live_tokens.h"
#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost {

/// How tokens leave a layer's cache, and what it is asked for.
struct LivingRules {
  /// A ContentPolicy or an IntervalPolicy, which must outlive the layer; nullptr: `lifetimes` say when.
  const Policy* policy = nullptr;
  at::Tensor lifetimes;       ///< evicted_at, [kv_heads, shape.tokens] int32; undefined: all stay
  int64_t capacity = kNever;  ///< most tokens a query sees, if that is known
  bool renumbered = false;    ///< positions are ranks among the tokens kept ("positions": "cache")
  bool attends = true;        ///< values are kept, and what queries get is wanted
};

/// One layer's cache, living through a text from token to token: token i enters, its query attends to what is
/// kept, the policy is told what it wants to know, and what has no room leaves. KV heads run in parallel
/// unless they share one set.
class LivingLayer {
 public:
  /// `angles`, of all layers of one text, must outlive it.
  LivingLayer(const LivingRules& rules, const CacheShape& shape, RankAngles& angles);

  /// The chunk at the position where the last one ended. `cache`: its keys and values and their rounding
  /// (then the chunk is the whole text; if renumbered, keys are rounded before RoPE); its evicted_at is not
  /// read. Returns what input.q's queries get, like input.q, if the rules say so. `evicted_at`, if given,
  /// [kv_heads, shape.tokens]: written for tokens that leave. Failure if queries are missing that the policy
  /// needs.
  at::Tensor feed(const LayerInput& input, const CachedTokens& cache, int32_t* evicted_at);

  /// Summed over KV heads and the queries fed that predict scored tokens: tokens seen.
  int64_t tokens_seen() const;
  int64_t tokens_fed() const { return next_; }
  int64_t tokens_held() const;  ///< now, summed over KV heads
  int64_t most_tokens() const;  ///< that one KV head has held
  bool evicted() const;         ///< some query missed a token
  int64_t memory_bytes() const;

 private:
  /// KV heads that share their tokens.
  struct Set {
    LiveTokens tokens;
    int64_t seen = 0, most = 0;
    bool evicted = false;
    std::vector<int64_t> slots;  ///< in passing
  };
  struct Feed {
    const LayerInput& input;
    LiveChunk chunk;
    float* attended;
    int32_t* evicted_at;
    bool asks(int64_t i) const { return i >= input.first_query && i < input.first_query + input.q.size(0); }
  };

  bool is_whole(const LayerInput& input) const { return input.k.size(0) == shape_.tokens; }
  void check(const LayerInput& input) const;
  void live(const Feed& feed, int64_t begin, int64_t end);
  void step(Set& set, const Feed& feed, int64_t i) const;
  void attend(Set& set, const Feed& feed, int64_t i) const;
  void decide(Set& set, const Feed& feed, int64_t i) const;
  void leave_by_lifetimes(Set& set, const Feed& feed, int64_t i) const;
  void give_up(Set& set, const Feed& feed, int64_t i) const;
  void decide_for_layer(const Feed& feed, const CachedTokens& cache, int64_t i);
  void remember(const LayerInput& input);
  at::Tensor as_newest_reads(const at::Tensor& keys, const at::Tensor& unrotated, const LayerInput& input,
                             int64_t tokens) const;

  LivingRules rules_;
  const ContentPolicy* content_;
  const IntervalPolicy* interval_;
  CacheShape shape_;
  RankAngles& angles_;
  std::vector<Set> sets_;
  std::vector<LayerInput> past_;  ///< chunks that a decision to come is told of
  int64_t next_ = 0;              ///< position of the next token
};

/// What a window's queries get, like input.q, if tokens leave as cache.evicted_at says and those kept are
/// renumbered by rank. Keys are rounded before RoPE if at all.
at::Tensor attend_renumbered(const CacheShape& shape, const LayerInput& input, const CachedTokens& cache);

}  // namespace kvcost
