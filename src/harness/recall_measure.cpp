#include "src/harness/recall_measure.h"

#include <ATen/Context.h>

#include <algorithm>
#include <chrono>

#include "src/base/error.h"
#include "src/harness/cache_shape.h"
#include "src/harness/decision_point.h"
#include "src/harness/scoring.h"

namespace kvcost {
namespace {

using Clock = std::chrono::steady_clock;

void finish(Unit& unit, const std::vector<at::Tensor>& lifetimes, int64_t prompt, bool changed,
            Clock::time_point start) {
  unit.tokens_kept = prompt_tokens_kept(lifetimes, prompt);
  unit.evicted = unit.tokens_kept < static_cast<double>(prompt);
  unit.changed = changed;
  unit.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  unit.capability = at::get_cpu_capability();
}

nlohmann::json without_policy(nlohmann::json row) {
  row.erase("evict");
  return row;
}

}  // namespace

RecallRowCache::RecallRowCache(const RowSpec& spec)
    : whole(std::make_unique<RowCache>(spec.config(), spec.path)),
      rounding(std::make_unique<RowCache>(without_policy(spec.config()), spec.path)) {}

std::vector<int64_t> answer_positions(const RecallCase& of) {
  std::vector<int64_t> positions;
  for (const RecallQuestion* question : {&of.first, &of.follow_up}) {
    for (int64_t t = question->answer_begin; t < question->answer_end; ++t) positions.push_back(t);
  }
  return positions;
}

CaseMeasurer::CaseMeasurer(const Decoder& decoder, const RecallCase& of)
    : decoder_(decoder), case_(of), positions_(answer_positions(of)) {
  for (int64_t t : positions_) targets_.push_back(of.ids[t]);
}

CacheShape CaseMeasurer::shape(int64_t prompt) const {
  return cache_shape(decoder_.config(), static_cast<int64_t>(case_.ids.size()), prompt);
}

Pass CaseMeasurer::pass_from(int64_t start, const std::vector<LayerKv>& prefix) const {
  Pass pass;
  pass.ids = case_.ids;
  pass.start = std::min(start, first_needed());
  pass.prefix = &prefix;
  pass.wanted_from = first_needed();
  pass.wanted_to = static_cast<int64_t>(case_.ids.size()) - 1;
  return pass;
}

/// A policy that is told of every query's attention must see them all, in the last layer too.
void CaseMeasurer::score(Unit& unit, Pass pass, bool all_queries) const {
  if (all_queries) {
    pass.wanted_from = pass.start;
    pass.wanted_to = static_cast<int64_t>(case_.ids.size());
  }
  const at::Tensor states = decoder_.hidden(pass);
  std::vector<int64_t> rows;
  for (int64_t t : positions_) rows.push_back(t - 1 - pass.wanted_from);
  const at::Tensor wanted = states.index_select(0, at::tensor(rows, at::kLong)).contiguous();
  AnswerScores scores = score_answer(
      [&](int64_t first, int64_t last, at::Tensor& out) { decoder_.logits(wanted, first, last, out); },
      decoder_.config().vocabulary, targets_);
  unit.loss_bits = std::move(scores.loss_bits);
  unit.is_top1 = std::move(scores.is_top1);
}

const Unit& CaseMeasurer::full() {
  if (full_) return *full_;
  const auto start = Clock::now();
  Unit unit;
  Pass pass = pass_from(0, kv_);
  std::vector<LayerKv> kv;
  pass.keep = &kv;
  score(unit, pass, false);
  kv_ = std::move(kv);
  finish(unit, std::vector<at::Tensor>(kv_.size()), case_.context_end, false, start);
  full_ = std::move(unit);
  return *full_;
}

std::vector<Unit> CaseMeasurer::row(RecallRowCache& row, std::span<const int64_t> decided_at) {
  full();
  std::vector<Unit> units(decided_at.size());
  std::vector<LayerKv> kv;
  std::vector<at::Tensor> lifetimes;
  auto decide = [&](Unit& unit, int64_t prompt, bool keep) {
    const auto start = Clock::now();
    DecidingCache cache(*row.whole, shape(prompt));
    Pass pass = pass_from(row.whole->same_until(), kv_);
    pass.cache = std::ref(cache);
    if (keep) pass.keep = &kv;
    score(unit, pass, row.whole->needs_all_queries());
    lifetimes = cache.lifetimes();
    finish(unit, cache.frozen_lifetimes(), prompt, row.whole->report().changed, start);
  };
  auto take_over = [&](Unit& unit, int64_t prompt) {
    const auto start = Clock::now();
    DecidedCache cache(*row.rounding, shape(prompt), lifetimes, last_eviction(*row.whole->policy(), prompt),
                       row.whole->renumbered());
    // Up to there the other pass was this one.
    Pass pass = pass_from(prompt, kv);
    pass.cache = std::ref(cache);
    score(unit, pass, false);
    finish(unit, cache.frozen_lifetimes(), prompt, row.rounding->report().changed, start);
  };
  if (!decides_on_the_way(*row.whole)) {
    for (size_t i = 0; i < units.size(); ++i) decide(units[i], decided_at[i], false);
    return units;
  }
  const size_t last =
      static_cast<size_t>(std::max_element(decided_at.begin(), decided_at.end()) - decided_at.begin());
  decide(units[last], decided_at[last], true);
  for (size_t i = 0; i < units.size(); ++i) {
    if (i != last) take_over(units[i], decided_at[i]);
  }
  return units;
}

}  // namespace kvcost
