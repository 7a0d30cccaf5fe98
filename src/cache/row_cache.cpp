#include "src/cache/row_cache.h"

#include <algorithm>
#include <cstring>

#include "src/base/error.h"
#include "src/cache/layer_eviction.h"
#include "src/cache/living_layer.h"
#include "src/cache/registry.h"

namespace kvcost {
namespace {

bool same_window(const CacheShape& a, const CacheShape& b) {
  return a.layers == b.layers && a.query_heads == b.query_heads && a.kv_heads == b.kv_heads &&
         a.head_dim == b.head_dim && a.tokens == b.tokens && a.prompt == b.prompt;
}

at::Tensor for_every_head(const std::vector<int32_t>& lifetimes, int64_t kv_heads) {
  at::Tensor out = at::empty({kv_heads, static_cast<int64_t>(lifetimes.size())}, at::kInt);
  for (int64_t h = 0; h < kv_heads; ++h) {
    std::copy(lifetimes.begin(), lifetimes.end(), out.data_ptr<int32_t>() + h * out.size(1));
  }
  return out;
}

}  // namespace

RowCache::RowCache(const nlohmann::json& row, const std::string& path) {
  Knobs knobs(row, path);
  if (row.contains("evict")) {
    evict_ = row["evict"], evict_path_ = path + ".evict";
    policy_ = make_policy(evict_, evict_path_);
    by_content_ = dynamic_cast<const PositionPolicy*>(policy_.get()) == nullptr;
    needs_queries_ = needs_queries(*policy_);
    renumbered_ = is_renumbered(evict_, evict_path_);
  }
  if (row.contains("keys")) keys_.codec = make_codec(row["keys"], path + ".keys");
  if (row.contains("values")) values_.codec = make_codec(row["values"], path + ".values");
  if (values_.codec && values_.codec->before_rope()) {
    throw InputError(
        path + ".values: found a codec that works before RoPE, expected one after: values have no RoPE");
  }
  if (renumbered_ && keys_.codec && !keys_.codec->before_rope()) {
    throw InputError(
        path +
        ".keys: found a codec that works after RoPE, expected \"rope\": \"before\": with \"positions\": "
        "\"cache\" keys are stored before it");
  }
  exact_last_ = knobs.integer("exact_last", 0, kNever, 0);
  if (exact_last_ > 0 && !keys_.codec && !values_.codec) {
    knobs.refuse("exact_last", "none without a codec for \"keys\" or \"values\"");
  }
}

std::vector<std::shared_ptr<const Policy>> RowCache::policies(int layers) const {
  if (!policy_) return {};
  return make_layer_policies(evict_, evict_path_, layers);
}

void RowCache::begin(const CacheShape& shape) {
  const bool known = same_window(shape, shape_) && !layers_.empty();
  layers_.assign(static_cast<size_t>(shape.layers), {});
  if (known) return;
  shape_ = shape;
  layer_policies_ = policies(shape.layers);
  begin_side(keys_);
  begin_side(values_);
  begin_plans();
}

void RowCache::begin_side(Side& side) {
  if (!side.codec) return;
  side.codec->check(shape_);
  side.rounded_at.assign(static_cast<size_t>(shape_.tokens), 0);
  side.codec->lifetimes(shape_, exact_last_, side.rounded_at);
  bool always = true;
  side.read = false;
  for (int64_t j = 0; j < shape_.tokens; ++j) {
    always = always && side.rounded_at[j] <= j;
    side.read = side.read || side.rounded_at[j] < shape_.tokens;
  }
  side.rounded_at_tensor = always ? at::Tensor() : for_every_head(side.rounded_at, shape_.kv_heads);
}

void RowCache::begin_plans() {
  plans_.clear();
  if (by_content_) return;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    Plan plan{planned_lifetimes(layer), {}};
    const bool as_before =
        layer > 0 && plan.evicted_at.defined() == plans_.back().evicted_at.defined() &&
        (!plan.evicted_at.defined() || at::equal(plan.evicted_at, plans_.back().evicted_at));
    if (as_before) {
      plans_.push_back(plans_.back());
      continue;
    }
    plan.facts = measure(plan.evicted_at);
    plans_.push_back(plan);
  }
}

/// Position policies know nothing of a layer's content, but may treat layers differently.
at::Tensor RowCache::planned_lifetimes(int layer) const {
  if (!policy_) return {};
  CacheShape shape = shape_;
  shape.layer = layer;
  return position_lifetimes(dynamic_cast<const PositionPolicy&>(*layer_policies_[layer]), shape);
}

CachedTokens RowCache::operator()(const LayerInput& input) {
  if (input.layer < 0 || input.layer >= static_cast<int>(layers_.size()) ||
      input.k.size(0) != shape_.tokens || input.offset != 0) {
    throw Failure(fmt::format("cache: layer {} with {} tokens, begun for {} layers of {}", input.layer,
                              input.k.size(0), layers_.size(), shape_.tokens));
  }
  CacheShape shape = shape_;
  shape.layer = input.layer;
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  if (keys_.read) {
    const bool before = keys_.codec->before_rope();
    const CodecInput keys =
        before ? CodecInput{input.k_unrotated, input.k_bias, shape} : CodecInput{input.k, {}, shape};
    cache.k_rounded = keys_.codec->round(keys);
    if (before) {
      cache.k_rounded_unrotated = cache.k_rounded;
      cache.k_rounded = cache.k_rounded.clone();
      rotate(cache.k_rounded, input.cos, input.sin);
    }
    cache.k_rounded_at = keys_.rounded_at_tensor;
  }
  if (values_.read) {
    cache.v_rounded = values_.codec->round({input.v, {}, shape});
    cache.v_rounded_at = values_.rounded_at_tensor;
  }

  LayerFacts& facts = layers_[input.layer];
  if (by_content_) {
    decide(input, shape, cache);
    facts = measure(cache.evicted_at);
  } else {
    cache.evicted_at = plans_[input.layer].evicted_at;
    facts = plans_[input.layer].facts;
  }
  if (renumbered_ && !cache.attended.defined()) cache.attended = attend_renumbered(shape, input, cache);
  facts.seen = true;
  facts.changed = changes(keys_, cache.k, cache.k_rounded, cache.evicted_at) ||
                  changes(values_, cache.v, cache.v_rounded, cache.evicted_at);
  return cache;
}

/// When tokens leave; with renumbered positions, which what queries weigh depends on, also what they get.
void RowCache::decide(const LayerInput& input, const CacheShape& shape, CachedTokens& cache) const {
  const Policy& policy = *layer_policies_[input.layer];
  // A clairvoyant decides by the full cache, whose positions are the original ones.
  if (!renumbered_ || policy.looks_ahead()) {
    cache.evicted_at = layer_lifetimes(policy, shape, input, cache);
    return;
  }
  LivingRules rules;
  rules.policy = &policy, rules.capacity = policy.capacity(), rules.renumbered = true;
  RankAngles angles;
  cache.evicted_at = at::full({shape.kv_heads, shape.tokens}, kNever, at::kInt);
  cache.attended = LivingLayer(rules, shape, angles).feed(input, cache, cache.evicted_at.data_ptr<int32_t>());
}

RowCache::LayerFacts RowCache::measure(const at::Tensor& evicted_at) const {
  const int64_t T = shape_.tokens;
  const int32_t* gone = evicted_at.defined() ? evicted_at.const_data_ptr<int32_t>() : nullptr;
  LayerFacts facts;
  std::vector<uint8_t> kept(static_cast<size_t>(shape_.kv_heads * T), 1);
  // Queries that predict the scored tokens: positions prompt - 1 to T - 2.
  const int64_t first = std::max<int64_t>(0, shape_.prompt - 1), last = T - 2;
  int64_t seen = 0, held = 0;
  for (int64_t h = 0; h < shape_.kv_heads; ++h) {
    for (int64_t j = 0; j < T; ++j) {
      const int64_t until = gone ? std::min<int64_t>(gone[h * T + j], T) : T;  // queries j .. until - 1 see j
      seen += std::max<int64_t>(0, std::min(until - 1, last) - std::max(j, first) + 1);
      facts.evicted = facts.evicted || until < T;
      kept[h * T + j] = until >= T;
      held += until >= T;
    }
  }
  if (last >= first)
    facts.tokens_kept = static_cast<double>(seen) / static_cast<double>(shape_.kv_heads * (last - first + 1));
  facts.stored_bits = side_bits(keys_, kept) + side_bits(values_, kept);
  facts.stored_numbers = 2 * held * shape_.head_dim;
  return facts;
}

int64_t RowCache::side_bits(const Side& side, const std::vector<uint8_t>& kept) const {
  const int64_t T = shape_.tokens;
  Holding holding{kept, std::vector<uint8_t>(kept.size(), 0)};
  int64_t exact = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    holding.rounded[i] = side.codec && side.rounded_at[i % static_cast<size_t>(T)] <= T - 1;
    exact += kept[i] && !holding.rounded[i];
  }
  return exact * shape_.head_dim * kExactBits + (side.codec ? side.codec->stored_bits(shape_, holding) : 0);
}

bool RowCache::changes(const Side& side, const at::Tensor& exact, const at::Tensor& rounded,
                       const at::Tensor& evicted_at) const {
  if (!rounded.defined()) return false;
  const int64_t T = shape_.tokens, d = shape_.head_dim;
  const float* a = exact.const_data_ptr<float>();
  const float* b = rounded.const_data_ptr<float>();
  const int32_t* gone = evicted_at.defined() ? evicted_at.const_data_ptr<int32_t>() : nullptr;
  // Almost always over at the first token that is read rounded at all.
  for (int64_t j = 0; j < T; ++j) {
    for (int64_t h = 0; h < shape_.kv_heads; ++h) {
      const int64_t until = gone ? std::min<int64_t>(gone[h * T + j], T) : T;
      const int64_t i = (j * shape_.kv_heads + h) * d;
      if (std::max<int64_t>(j, side.rounded_at[j]) < until && !std::equal(a + i, a + i + d, b + i))
        return true;
    }
  }
  return false;
}

CacheReport RowCache::report() const {
  CacheReport report;
  double bits = 0, numbers = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const LayerFacts& facts = layers_[layer];
    if (!facts.seen) throw Failure(fmt::format("cache: layer {} was not run", layer));
    report.tokens_kept += facts.tokens_kept;
    report.evicted = report.evicted || facts.evicted;
    report.changed = report.changed || facts.changed;
    bits += static_cast<double>(facts.stored_bits), numbers += static_cast<double>(facts.stored_numbers);
  }
  report.tokens_kept /= static_cast<double>(layers_.size());
  if (shape_.tokens > 0) report.stored_bytes_per_token = bits / 8 / static_cast<double>(shape_.tokens);
  if (numbers > 0) report.effective_bits = bits / numbers;
  return report;
}

int64_t RowCache::same_until() const {
  int64_t until = shape_.tokens;
  for (const auto& policy : layer_policies_) until = std::min(until, policy->same_until(shape_));
  for (const Side* side : {&keys_, &values_}) {
    for (size_t j = 0; j < side->rounded_at.size(); ++j) {
      until = std::min(until, std::max<int64_t>(static_cast<int64_t>(j), side->rounded_at[j]));
    }
  }
  return until;
}

bool RowCache::looks_ahead() const {
  return (policy_ && policy_->looks_ahead()) || (keys_.codec && keys_.codec->looks_ahead()) ||
         (values_.codec && values_.codec->looks_ahead());
}

}  // namespace kvcost
