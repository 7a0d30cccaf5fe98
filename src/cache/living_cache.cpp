#include "src/cache/living_cache.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/cache/layer_eviction.h"
#include "src/cache/living_layer.h"
#include "src/cache/registry.h"

namespace kvcost {
namespace {

/// An IntervalPolicy is told of every past query each time it decides; once, what comes before can be kept.
bool decides_again(const IntervalPolicy& policy) {
  CacheShape endless;
  endless.layers = 1, endless.query_heads = endless.kv_heads = 1, endless.head_dim = 2;
  endless.tokens = kNever, endless.prompt = kNever;
  const int64_t first = policy.next_decision(endless, 0);
  return first < kNever && policy.next_decision(endless, first + 1) < kNever;
}

}  // namespace

LivingCache::LivingCache(const nlohmann::json& row, const std::string& path) {
  for (const char* side : {"keys", "values"}) {
    if (!row.contains(side)) continue;
    throw InputError(
        fmt::format("{}.{}: found a codec, expected none: a stream's cache is not rounded", path, side));
  }
  if (!row.contains("evict")) return;
  evict_ = row["evict"], evict_path_ = path + ".evict";
  policy_ = make_policy(evict_, evict_path_);
  renumbered_ = is_renumbered(evict_, evict_path_);
  needs_queries_ = needs_queries(*policy_);
  auto refuse = [&](const char* why) {
    throw InputError(fmt::format("{}.policy: found \"{}\", {}: it can only be run on windows", evict_path_,
                                 evict_["policy"].get<std::string>(), why));
  };
  if (policy_->looks_ahead()) refuse("which looks ahead, expected one that a stream can live by");
  const auto* interval = dynamic_cast<const IntervalPolicy*>(policy_.get());
  if (interval != nullptr && decides_again(*interval)) {
    refuse("which needs every past query, expected one that a stream can live by");
  }
}

LivingCache::~LivingCache() = default;

void LivingCache::begin(const CacheShape& shape) {
  shape_ = shape;
  layers_.clear();
  angles_ = std::make_unique<RankAngles>();
  if (evict_.is_object()) policies_ = make_layer_policies(evict_, evict_path_, shape.layers);
  at::Tensor before;
  for (shape_.layer = 0; shape_.layer < shape.layers; ++shape_.layer) {
    LivingRules rules;
    rules.renumbered = renumbered_;
    if (policy_) {
      const Policy& policy = *policies_[shape_.layer];
      rules.capacity = policy.capacity();
      if (const auto* by_position = dynamic_cast<const PositionPolicy*>(&policy)) {
        rules.lifetimes = position_lifetimes(*by_position, shape_);
        if (before.defined() && rules.lifetimes.defined() && at::equal(before, rules.lifetimes)) {
          rules.lifetimes = before;
        }
        before = rules.lifetimes;
      } else {
        rules.policy = &policy;
      }
    }
    layers_.push_back(std::make_unique<LivingLayer>(rules, shape_, *angles_));
  }
}

CachedTokens LivingCache::operator()(const LayerInput& input) {
  if (input.layer < 0 || input.layer >= static_cast<int>(layers_.size())) {
    throw Failure(fmt::format("cache: layer {}, begun for {}", input.layer, layers_.size()));
  }
  CachedTokens chunk;
  chunk.k = input.k, chunk.v = input.v;
  CachedTokens out;
  out.attended = layers_[input.layer]->feed(input, chunk, nullptr);
  return out;
}

LivingReport LivingCache::report() const {
  LivingReport report;
  int64_t seen = 0, fed = kNever;
  for (const auto& layer : layers_) {
    seen += layer->tokens_seen();
    fed = std::min(fed, layer->tokens_fed());
    report.evicted = report.evicted || layer->evicted();
    report.tokens_held += layer->tokens_held();
    report.most_tokens = std::max(report.most_tokens, layer->most_tokens());
    report.memory_bytes += layer->memory_bytes();
  }
  const int64_t first = std::max<int64_t>(0, shape_.prompt - 1);
  const int64_t counted = std::min(fed, shape_.tokens - 1) - first;
  if (counted > 0) {
    report.tokens_kept = static_cast<double>(seen) / static_cast<double>(counted * shape_.kv_heads) /
                         static_cast<double>(layers_.size());
  }
  return report;
}

}  // namespace kvcost
