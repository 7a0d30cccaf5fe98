#include "src/cache/living_layer.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/cache/layer_eviction.h"
#include "src/model/elementwise.h"

namespace kvcost {
namespace {

/// Slots to begin with where a policy does not bound them, or far above what may ever come.
constexpr int64_t kFirstRoom = 1024;

const float* data(const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }
const int32_t* lifetimes(const at::Tensor& t) { return t.defined() ? t.const_data_ptr<int32_t>() : nullptr; }

LiveChunk chunk_of(const LayerInput& input, const CachedTokens& cache, bool renumbered) {
  LiveChunk chunk;
  chunk.offset = input.offset, chunk.tokens = input.k.size(0);
  chunk.keys = {data(renumbered ? input.k_unrotated : cache.k),
                data(renumbered ? cache.k_rounded_unrotated : cache.k_rounded),
                lifetimes(cache.k_rounded_at)};
  chunk.values = {data(cache.v), data(cache.v_rounded), lifetimes(cache.v_rounded_at)};
  chunk.cos = data(input.cos), chunk.sin = data(input.sin);
  return chunk;
}

/// Chunks, one after the other, as one.
LayerInput joined(const std::vector<LayerInput>& chunks) {
  auto join = [&](at::Tensor LayerInput::*x) {
    std::vector<at::Tensor> parts;
    for (const LayerInput& chunk : chunks) parts.push_back(chunk.*x);
    return at::cat(parts);
  };
  LayerInput whole = chunks.front();
  for (at::Tensor LayerInput::*x : {&LayerInput::q, &LayerInput::k_unrotated, &LayerInput::k, &LayerInput::v,
                                    &LayerInput::cos, &LayerInput::sin}) {
    whole.*x = join(x);
  }
  return whole;
}

}  // namespace

LivingLayer::LivingLayer(const LivingRules& rules, const CacheShape& shape, RankAngles& angles)
    : rules_(rules),
      content_(dynamic_cast<const ContentPolicy*>(rules.policy)),
      interval_(dynamic_cast<const IntervalPolicy*>(rules.policy)),
      shape_(shape),
      angles_(angles) {
  if (rules.policy != nullptr && content_ == nullptr && interval_ == nullptr) {
    throw Failure("policy: of no kind that decides by what a cache holds");
  }
  LiveTokens::Setup setup;
  setup.kv_heads = content_ != nullptr && content_->one_set_per_layer() ? shape.kv_heads : 1;
  setup.room = std::min({rules.capacity, std::max<int64_t>(1, shape.tokens), kFirstRoom});
  if (content_ != nullptr) setup.numbers = std::max<int64_t>(1, content_->numbers_per_token());
  setup.weighs = rules.attends || (content_ != nullptr && content_->reads_weights());
  setup.attends = rules.attends;
  if (rules.renumbered) setup.angles = &angles;
  sets_.reserve(static_cast<size_t>(shape.kv_heads));
  for (int64_t h = 0; h < shape.kv_heads; h += setup.kv_heads) {
    setup.first_kv_head = h;
    sets_.push_back({LiveTokens(shape, setup), 0, 0, false, {}});
  }
}

void LivingLayer::check(const LayerInput& input) const {
  const int64_t end = next_ + input.k.size(0), queries = input.first_query + input.q.size(0);
  if (input.offset != next_ || end > shape_.tokens) {
    throw Failure(fmt::format("cache: tokens {} to {}, expected them from {}, {} in all", input.offset,
                              end - 1, next_, shape_.tokens));
  }
  if (rules_.policy == nullptr || !needs_queries(*rules_.policy)) return;
  // A window's pass may start where the policy does.
  const int64_t first = is_whole(input) ? std::max(next_, rules_.policy->same_until(shape_)) : next_;
  if (first < end && (input.first_query > first || queries != end)) {
    throw Failure(fmt::format("policy: given queries {} to {}, needs {} to {}", input.first_query,
                              queries - 1, first, end - 1));
  }
}

at::Tensor LivingLayer::feed(const LayerInput& input, const CachedTokens& cache, int32_t* evicted_at) {
  check(input);
  const int64_t begin = next_, end = next_ + input.k.size(0);
  if (rules_.renumbered) angles_.learn(input, std::min(rules_.capacity, shape_.tokens));
  at::Tensor attended;
  if (rules_.attends) attended = at::empty_like(input.q);
  const Feed feed{input, chunk_of(input, cache, rules_.renumbered),
                  rules_.attends ? attended.data_ptr<float>() : nullptr, evicted_at};
  if (interval_ != nullptr) remember(input);
  for (int64_t i = begin; i < end;) {
    const int64_t decision = interval_ != nullptr ? interval_->next_decision(shape_, i) : kNever;
    const int64_t stop = std::min(end, decision + 1);
    live(feed, i, stop);
    if (decision < stop) decide_for_layer(feed, cache, decision);
    i = stop;
  }
  next_ = end;
  return attended;
}

void LivingLayer::live(const Feed& feed, int64_t begin, int64_t end) {
  at::parallel_for(0, static_cast<int64_t>(sets_.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      for (int64_t i = begin; i < end; ++i) step(sets_[s], feed, i);
    }
  });
}

void LivingLayer::step(Set& set, const Feed& feed, int64_t i) const {
  set.tokens.enter(i, feed.chunk);
  set.most = std::max(set.most, set.tokens.slots());
  // Queries that predict the scored tokens: positions prompt - 1 to T - 2.
  if (i >= shape_.prompt - 1 && i <= shape_.tokens - 2) {
    set.seen += set.tokens.slots() * set.tokens.view().kv_heads;
  }
  if (content_ == nullptr) {
    if (rules_.attends && feed.asks(i)) attend(set, feed, i);
    leave_by_lifetimes(set, feed, i);
    return;
  }
  set.tokens.settle();
  set.tokens.take_changed(set.slots);
  for (int64_t slot : set.slots) content_->read_key(shape_, set.tokens.view(), slot, set.tokens.memory());
  const bool decides = i >= content_->same_until(shape_);
  if ((decides && content_->reads_weights()) || (rules_.attends && feed.asks(i))) attend(set, feed, i);
  if (decides) decide(set, feed, i);
}

void LivingLayer::attend(Set& set, const Feed& feed, int64_t i) const {
  const int64_t row = (i - feed.input.first_query) * shape_.query_heads * shape_.head_dim;
  set.tokens.settle();
  set.tokens.attend(feed.input.q.const_data_ptr<float>() + row, feed.chunk);
  if (rules_.attends) set.tokens.output(feed.attended + row);
}

/// After query i's attention: the policy is told, and gives up what has no room.
void LivingLayer::decide(Set& set, const Feed& feed, int64_t i) const {
  LiveTokens& tokens = set.tokens;
  content_->observe(shape_, tokens.view(), tokens.memory());
  while (tokens.slots() > 0 && tokens.slots() >= content_->capacity()) {
    tokens.settle();
    const int64_t slot = content_->evict(shape_, tokens.view(), tokens.memory());
    if (slot < 0 || slot >= tokens.slots()) throw Failure("policy: named no token to give up");
    set.slots.assign(1, slot);
    give_up(set, feed, i);
  }
}

void LivingLayer::leave_by_lifetimes(Set& set, const Feed& feed, int64_t i) const {
  if (!rules_.lifetimes.defined()) return;
  const std::span<const int32_t> positions = set.tokens.positions();
  const int32_t* gone =
      rules_.lifetimes.const_data_ptr<int32_t>() + set.tokens.view().first_kv_head * shape_.tokens;
  set.slots.clear();
  for (size_t s = 0; s < positions.size(); ++s) {
    if (gone[positions[s]] <= i + 1) set.slots.push_back(static_cast<int64_t>(s));
  }
  give_up(set, feed, i);
}

/// set.slots leave after query i.
void LivingLayer::give_up(Set& set, const Feed& feed, int64_t i) const {
  set.evicted = set.evicted || (!set.slots.empty() && i + 1 < shape_.tokens);
  const CacheView& view = set.tokens.view();
  for (int64_t h = view.first_kv_head; feed.evicted_at != nullptr && h < view.first_kv_head + view.kv_heads;
       ++h) {
    for (int64_t slot : set.slots) {
      feed.evicted_at[h * shape_.tokens + set.tokens.positions()[slot]] = static_cast<int32_t>(i + 1);
    }
  }
  set.tokens.give_up(set.slots);
}

/// What comes in pieces is kept as long as a decision may want it.
void LivingLayer::remember(const LayerInput& input) {
  if (is_whole(input) || interval_->next_decision(shape_, input.offset) == kNever) return;
  past_.push_back(input);
  LayerInput& kept = past_.back();
  for (at::Tensor* x : {&kept.q, &kept.k_unrotated, &kept.k, &kept.v, &kept.cos, &kept.sin}) *x = x->clone();
}

void LivingLayer::decide_for_layer(const Feed& feed, const CachedTokens& cache, int64_t i) {
  LayerInput input = feed.input;
  CachedTokens now = cache;
  if (!past_.empty()) {
    input = joined(past_);
    now = {};
    now.k = input.k, now.v = input.v;
    if (interval_->next_decision(shape_, i + 1) == kNever) past_.clear();
  }
  const int64_t tokens = i + 1;
  if (rules_.renumbered) {
    now.k = as_newest_reads(now.k, input.k_unrotated, input, tokens);
    now.k_rounded = as_newest_reads(now.k_rounded, now.k_rounded_unrotated, input, tokens);
  }
  std::vector<uint8_t> kept(static_cast<size_t>(shape_.kv_heads * tokens), 0);
  for (const Set& set : sets_) {
    const int64_t head = set.tokens.view().first_kv_head * tokens;
    for (int32_t token : set.tokens.positions()) kept[head + token] = 1;
  }
  interval_->decide(shape_, so_far(input, now, tokens), kept);
  for (Set& set : sets_) {
    const int64_t head = set.tokens.view().first_kv_head * tokens;
    set.slots.clear();
    for (int64_t s = 0; s < set.tokens.slots(); ++s) {
      if (kept[head + set.tokens.positions()[s]] == 0) set.slots.push_back(s);
    }
    give_up(set, feed, i);
  }
}

/// Keys of the tokens kept, turned to where the newest query, at its own position, finds them: each as far
/// behind it as its rank says. Other tokens' rows are left as they are.
at::Tensor LivingLayer::as_newest_reads(const at::Tensor& keys, const at::Tensor& unrotated,
                                        const LayerInput& input, int64_t tokens) const {
  const bool all =
      std::all_of(sets_.begin(), sets_.end(), [&](const Set& set) { return set.tokens.slots() == tokens; });
  if (all || !keys.defined()) return keys;
  const int64_t half = shape_.head_dim / 2;
  at::Tensor out = keys.clone();
  for (const Set& set : sets_) {
    for (int64_t s = 0; s < set.tokens.slots(); ++s) {
      const int64_t position = tokens - set.tokens.slots() + s;
      const int64_t key =
          (set.tokens.positions()[s] * shape_.kv_heads + set.tokens.view().first_kv_head) * shape_.head_dim;
      rotate_head(unrotated.const_data_ptr<float>() + key, data(input.cos) + position * half,
                  data(input.sin) + position * half, half, out.data_ptr<float>() + key);
    }
  }
  return out;
}

at::Tensor attend_renumbered(const CacheShape& shape, const LayerInput& input, const CachedTokens& cache) {
  LivingRules rules;
  rules.lifetimes = cache.evicted_at, rules.renumbered = true;
  RankAngles angles;
  return LivingLayer(rules, shape, angles).feed(input, cache, nullptr);
}

int64_t LivingLayer::tokens_seen() const {
  int64_t sum = 0;
  for (const Set& set : sets_) sum += set.seen;
  return sum;
}

int64_t LivingLayer::tokens_held() const {
  int64_t sum = 0;
  for (const Set& set : sets_) sum += set.tokens.slots() * set.tokens.view().kv_heads;
  return sum;
}

int64_t LivingLayer::most_tokens() const {
  int64_t most = 0;
  for (const Set& set : sets_) most = std::max(most, set.most);
  return most;
}

bool LivingLayer::evicted() const {
  return std::any_of(sets_.begin(), sets_.end(), [](const Set& set) { return set.evicted; });
}

int64_t LivingLayer::memory_bytes() const {
  int64_t sum = 0;
  for (const Set& set : sets_) sum += set.tokens.bytes();
  for (const LayerInput& chunk : past_) sum += static_cast<int64_t>(chunk.q.nbytes() + 3 * chunk.k.nbytes());
  return sum;
}

}  // namespace kvcost
