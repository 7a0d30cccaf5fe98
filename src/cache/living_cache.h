#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost {

class LivingLayer;
class RankAngles;

/// What the caches of one stream have held, all layers, since begin().
struct LivingReport {
  /// Mean over layers, KV heads and the queries fed that predict scored tokens, itself counted; 0 if none.
  double tokens_kept = 0;
  bool evicted = false;      ///< some query missed a token
  int64_t tokens_held = 0;   ///< now: tokens of one KV head, summed over heads and layers
  int64_t most_tokens = 0;   ///< that one KV head has held at any time
  int64_t memory_bytes = 0;  ///< that the caches take now
};

/// A row's caches living through one text, fed in chunks of any size, the layers of each chunk in order. Only
/// what is kept is held: memory grows with the tokens kept and the chunk, not with the text. (Beside them, a
/// policy that decides by position takes 4 bytes for each KV head and token of the text, once for all layers
/// that agree.) Used by one thread:
///   LivingCache cache(row, "rows[3]");
///   cache.begin(shape);   // shape.tokens: the whole text's
///   for (chunk ...) decoder.hidden({.ids = chunk, .offset = first, .cache = cache.function(), ...});
///   cache.report();
class LivingCache {
 public:
  /// Reads "evict" of a row. InputError naming the JSON path, also for what no stream can do: a codec, a
  /// policy that looks ahead, and one that is told of every past query again and again.
  LivingCache(const nlohmann::json& row, const std::string& path);
  ~LivingCache();

  /// A new text; what was held is forgotten. `shape.layer` is not read.
  void begin(const CacheShape& shape);
  /// One layer's next chunk: input.offset is where the last one ended. Returns `attended` for input.q's
  /// queries and nothing else. Queries may be left out (the last layer's that nobody wants) unless
  /// needs_all_queries().
  CachedTokens operator()(const LayerInput& input);
  CacheFunction function() {
    return [this](const LayerInput& input) { return (*this)(input); };
  }
  /// After whole chunks, all layers.
  LivingReport report() const;

  /// True if the policy decides by queries or their weights: they may not be left out.
  bool needs_all_queries() const { return needs_queries_; }
  /// "positions": "cache".
  bool renumbered() const { return renumbered_; }
  /// As configured; its capacity is the mean over layers. nullptr: every token stays.
  const Policy* policy() const { return policy_.get(); }

 private:
  nlohmann::json evict_;  ///< the row's, and where it stands
  std::string evict_path_;
  std::unique_ptr<Policy> policy_;
  bool needs_queries_ = false, renumbered_ = false;

  CacheShape shape_;
  std::vector<std::shared_ptr<const Policy>> policies_;  ///< [layers], or none
  std::unique_ptr<RankAngles> angles_;
  std::vector<std::unique_ptr<LivingLayer>> layers_;
};

}  // namespace kvcost
