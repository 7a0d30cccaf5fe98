#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cache/codec.h"
#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost {

/// What the caches of one window held, all layers.
struct CacheReport {
  double tokens_kept =
      0;  ///< mean over layers, KV heads and the queries that predict scored tokens, itself counted
  double stored_bytes_per_token = 0;  ///< of all layers at the window's end, per token of the window
  double effective_bits = 0;          ///< bits per number held at the window's end, metadata included
  bool evicted = false;               ///< some query missed a token
  bool changed = false;               ///< some query read a number that rounding had changed
  bool no_effect() const { return !evicted && !changed; }
};

/// A row's cache: at most one policy, one codec for keys and one for values, and how many of the newest
/// tokens stay exact. Made once for a row, used for one window after another, by one thread:
///   RowCache cache(row, "rows[3]");
///   cache.begin(shape);
///   decoder.hidden({.start = cache.same_until(), .cache = cache.function(), ...});
///   cache.report();
class RowCache {
 public:
  /// Reads "evict", "keys", "values" and "exact_last" of a row, all optional, and nothing else of it.
  /// InputError naming the JSON path.
  RowCache(const nlohmann::json& row, const std::string& path);

  /// A new window. InputError if the codecs do not fit the shape (`shape.layer` is not read).
  void begin(const CacheShape& shape);
  /// One layer's cached tokens; exact tensors are the input's own. Every query from same_until() on is needed
  /// if needs_all_queries(). If renumbered(), `attended` is what the queries get.
  CachedTokens operator()(const LayerInput& input);
  CacheFunction function() {
    return [this](const LayerInput& input) { return (*this)(input); };
  }
  /// After the window's last layer. Failure if a layer was not seen.
  CacheReport report() const;

  /// First position whose query may read anything but the full cache; a pass over the window may start here.
  /// At most shape.tokens.
  int64_t same_until() const;
  /// True if the policy decides by queries or their weights: they may not be left out, not even in the last
  /// layer.
  bool needs_all_queries() const { return needs_queries_; }
  /// Some decision or scale uses later tokens.
  bool looks_ahead() const;
  /// "positions": "cache": a token's position is its rank among those kept.
  bool renumbered() const { return renumbered_; }

  /// As configured; its capacity is the mean over layers.
  const Policy* policy() const { return policy_.get(); }
  /// [layers] one for each layer, which has its own capacity; empty without a policy.
  std::vector<std::shared_ptr<const Policy>> policies(int layers) const;
  const Codec* key_codec() const { return keys_.codec.get(); }
  const Codec* value_codec() const { return values_.codec.get(); }
  int64_t exact_last() const { return exact_last_; }

 private:
  /// Keys' or values' rounding.
  struct Side {
    std::unique_ptr<Codec> codec;
    std::vector<int32_t> rounded_at;  ///< [tokens], the same for every KV head; empty without codec
    at::Tensor rounded_at_tensor;     ///< [kv_heads, tokens]; undefined if always rounded
    bool read = false;                ///< some query reads a rounded number
  };
  struct LayerFacts {
    bool seen = false, evicted = false, changed = false;
    double tokens_kept = 0;
    int64_t stored_bits = 0, stored_numbers = 0;
  };

  /// What is known of a layer before it is run, unless its content decides.
  struct Plan {
    at::Tensor evicted_at;  ///< [kv_heads, tokens]; undefined if nothing is evicted
    LayerFacts facts;
  };

  void begin_side(Side& side);
  void begin_plans();
  at::Tensor planned_lifetimes(int layer) const;
  void decide(const LayerInput& input, const CacheShape& shape, CachedTokens& cache) const;
  LayerFacts measure(const at::Tensor& evicted_at) const;
  int64_t side_bits(const Side& side, const std::vector<uint8_t>& kept) const;
  bool changes(const Side& side, const at::Tensor& exact, const at::Tensor& rounded,
               const at::Tensor& evicted_at) const;

  nlohmann::json evict_;  ///< the row's, and where it stands
  std::string evict_path_;
  std::unique_ptr<Policy> policy_;
  bool by_content_ = false, needs_queries_ = false, renumbered_ = false;  ///< of policy_
  Side keys_, values_;
  int64_t exact_last_ = 0;

  CacheShape shape_;
  std::vector<std::shared_ptr<const Policy>> layer_policies_;  ///< [layers], or none
  std::vector<Plan> plans_;                                    ///< [layers]; empty if content decides
  std::vector<LayerFacts> layers_;                             ///< of the window being run
};

}  // namespace kvcost
