#include "src/harness/measure.h"

#include <ATen/Context.h>

#include <chrono>
#include <cmath>
#include <numbers>

#include "src/base/error.h"
#include "src/base/splitmix.h"
#include "src/harness/cache_shape.h"

namespace kvcost {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void finish(Unit& unit, const CacheReport& report, Clock::time_point start) {
  unit.tokens_kept = report.tokens_kept;
  unit.stored_bytes_per_token = report.stored_bytes_per_token;
  unit.effective_bits = report.effective_bits;
  unit.evicted = report.evicted;
  unit.changed = report.changed;
  unit.seconds = seconds_since(start);
  unit.capability = at::get_cpu_capability();
}

}  // namespace

WindowMeasurer::WindowMeasurer(const Decoder& decoder, std::span<const int32_t> ids, int64_t scored)
    : decoder_(decoder), ids_(ids), scored_(scored) {}

CacheShape WindowMeasurer::shape() const {
  const auto length = static_cast<int64_t>(ids_.size());
  return cache_shape(decoder_.config(), length, length - scored_);
}

std::span<const int32_t> WindowMeasurer::targets() const { return ids_.last(static_cast<size_t>(scored_)); }

LogitsFunction WindowMeasurer::logits_of(const at::Tensor& hidden) const {
  return [this, hidden](int64_t first, int64_t last, at::Tensor& out) {
    decoder_.logits(hidden, first, last, out);
  };
}

Pass WindowMeasurer::scored_pass(RowCache& cache) const {
  auto length = static_cast<int64_t>(ids_.size());
  cache.begin(shape());
  Pass pass;
  pass.ids = ids_;
  pass.cache = cache.function();
  pass.wanted_from = length - scored_ - 1;  // token t is predicted from position t - 1
  pass.wanted_to = length - 1;
  return pass;
}

at::Tensor WindowMeasurer::hidden_of(const Pass& pass, const RowCache& cache) const {
  if (!cache.needs_all_queries()) return decoder_.hidden(pass);
  Pass whole = pass;
  whole.wanted_from = pass.start;
  whole.wanted_to = static_cast<int64_t>(ids_.size());
  return decoder_.hidden(whole).slice(0, pass.wanted_from - pass.start, pass.wanted_to - pass.start);
}

const Unit& WindowMeasurer::full() {
  if (distribution_) return full_;
  auto start = Clock::now();
  RowCache everything(nlohmann::json::object(), "the full cache");
  Pass pass = scored_pass(everything);
  pass.keep = &kv_;
  at::Tensor hidden = hidden_of(pass, everything);
  distribution_.emplace(logits_of(hidden), decoder_.config().vocabulary, targets());
  distribution_->fill(full_);
  finish(full_, everything.report(), start);
  return full_;
}

void WindowMeasurer::forget_full() {
  kv_.clear();
  distribution_.reset();
}

Unit WindowMeasurer::row(RowCache& cache) {
  full();
  auto start = Clock::now();
  Pass pass = scored_pass(cache);
  int64_t first_scored = pass.wanted_from, length = pass.wanted_to + 1;
  pass.start = std::min(cache.same_until(), length - 1);
  pass.prefix = &kv_;
  pass.wanted_from = std::max(pass.wanted_from, pass.start);
  pass.wanted_to = std::max(pass.wanted_to, pass.start + 1);
  at::Tensor hidden = hidden_of(pass, cache);
  Unit unit;
  if (pass.start == length - 1) {
    // No scored token is predicted differently; the last query's pass only told what the cache holds.
    distribution_->fill(unit);
  } else {
    distribution_->compare(logits_of(hidden), pass.wanted_from - first_scored, unit);
  }
  finish(unit, cache.report(), start);
  return unit;
}

Unit WindowMeasurer::perturbed(RowCache& cache, double relative, int64_t seed, int64_t repeat,
                               int64_t window) {
  auto start = Clock::now();
  Pass pass = scored_pass(cache);
  pass.embedding_factor =
      normal_numbers(static_cast<int64_t>(ids_.size()), decoder_.config().hidden, seed, repeat, window)
          .mul_(relative)
          .add_(1.0);
  at::Tensor hidden = hidden_of(pass, cache);
  Unit unit;
  unit.loss_bits = losses_bits(logits_of(hidden), decoder_.config().vocabulary, targets());
  finish(unit, cache.report(), start);
  return unit;
}

at::Tensor normal_numbers(int64_t tokens, int64_t hidden, int64_t seed, int64_t repeat, int64_t window) {
  uint64_t state = static_cast<uint64_t>(seed);
  for (int64_t part : {repeat, window}) state = next_random(state) ^ static_cast<uint64_t>(part);
  at::Tensor out = at::empty({tokens, hidden}, at::kFloat);
  float* numbers = out.data_ptr<float>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    // Box-Muller; the first uniform number is in (0, 1].
    double u = static_cast<double>((next_random(state) >> 11) + 1) * 0x1p-53;
    double v = static_cast<double>(next_random(state) >> 11) * 0x1p-53;
    numbers[i] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }
  return out;
}

}  // namespace kvcost
