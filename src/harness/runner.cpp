#include "src/harness/runner.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <memory>
#include <set>

#include "src/base/error.h"
#include "src/cache/row_cache.h"
#include "src/harness/assemble.h"
#include "src/harness/experiment_inputs.h"
#include "src/harness/measure.h"

namespace kvcost {
namespace {

struct RunRow {
  RowSpec spec;
  std::unique_ptr<RowCache> cache;
};

/// One run: what it needs open, and the units it has in hand.
class Run {
 public:
  Run(const Experiment& experiment, const RunOptions& options, RunProgress& progress);
  std::optional<ResultFile> all_windows();

 private:
  void measure_window(int64_t window);
  Unit obtain(const UnitIdentity& identity, size_t row, int64_t window, bool& reused,
              const std::function<Unit()>& measure);
  UnitIdentity identity(int64_t window, size_t row) const;
  UnitIdentity perturbed_identity(int64_t window, size_t row, int64_t repeat) const;
  int64_t perturbed_windows(size_t row) const;
  bool mine(int64_t window) const { return window % options_.shard.n == options_.shard.k - 1; }
  const Decoder& decoder();
  RunProgress::Plan plan() const;
  std::optional<std::vector<RowUnits>> collect() const;
  ResultFile result(const std::vector<RowUnits>& units) const;

  const Experiment& experiment_;
  const RunOptions& options_;
  RunProgress& progress_;
  UnitStore store_;
  ExperimentInputs inputs_;
  std::vector<RunRow> rows_;  ///< the full cache first
  std::unique_ptr<Decoder> decoder_;
};

Run::Run(const Experiment& experiment, const RunOptions& options, RunProgress& progress)
    : experiment_(experiment),
      options_(options),
      progress_(progress),
      store_(options.store, [&progress](const std::string& line) { progress.note(line); }) {
  RowSpec full;
  full.name = kFullCacheName;
  rows_.push_back({full, nullptr});
  for (const RowSpec& spec : experiment.rows) {
    rows_.push_back({spec, std::make_unique<RowCache>(spec.config(), spec.path)});
  }
  inputs_ = open_inputs(experiment, options.text_folders,
                        [&progress](const std::string& line) { progress.note(line); });
}

/// Made only when a unit is missing: a run that finds all units needs no weights in memory.
const Decoder& Run::decoder() {
  if (!decoder_) decoder_ = load_decoder(inputs_.model, experiment_.dtype);
  return *decoder_;
}

UnitIdentity Run::identity(int64_t window, size_t row) const {
  return {inputs_.hashes.weights,
          inputs_.hashes.tokenizer,
          hash_of_ids(inputs_.windows[window]),
          experiment_.dtype,
          experiment_.scored,
          rows_[row].spec.config(),
          nullptr};
}

UnitIdentity Run::perturbed_identity(int64_t window, size_t row, int64_t repeat) const {
  UnitIdentity unit = identity(window, row);
  const Perturbation& perturb = *rows_[row].spec.perturb;
  unit.perturb = {
      {"relative", perturb.relative}, {"seed", perturb.seed}, {"repeat", repeat}, {"window", window}};
  return unit;
}

int64_t Run::perturbed_windows(size_t row) const {
  const auto& perturb = rows_[row].spec.perturb;
  if (!perturb) return 0;
  return perturb->windows == 0 ? experiment_.windows : std::min(perturb->windows, experiment_.windows);
}

RunProgress::Plan Run::plan() const {
  RunProgress::Plan plan;
  plan.name = experiment_.name, plan.model = experiment_.model;
  for (const RunRow& row : rows_) {
    plan.rows.push_back(row.spec.name);
    plan.sections.push_back(row.spec.section);
  }
  for (int64_t w = 0; w < experiment_.windows; ++w) {
    if (!mine(w)) continue;
    plan.windows.push_back(w);
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (w < perturbed_windows(r)) plan.perturbed_units += rows_[r].spec.perturb->repeats;
    }
  }
  return plan;
}

Unit Run::obtain(const UnitIdentity& identity, size_t row, int64_t window, bool& reused,
                 const std::function<Unit()>& measure) {
  std::string key = identity.key();
  std::optional<Unit> unit = store_.find(key, experiment_.scored);
  reused = unit.has_value();
  if (reused) return *unit;
  try {
    unit = measure();
  } catch (const Failure& failure) {
    throw Failure(fmt::format("row '{}', window {}: {}", rows_[row].spec.name, window, failure.what()));
  }
  store_.put(key, identity, *unit);
  return *unit;
}

void Run::measure_window(int64_t window) {
  std::unique_ptr<WindowMeasurer> measurer;
  auto measure = [&]() -> WindowMeasurer& {
    if (!measurer) {
      measurer = std::make_unique<WindowMeasurer>(decoder(), inputs_.windows[window], experiment_.scored);
    }
    return *measurer;
  };
  auto measure_full = [&] {
    Unit unit = measure().full();
    if (window == 0 && options_.key_statistics) {
      unit.key_statistics = options_.key_statistics(measurer->kv(), decoder());
    }
    return unit;
  };
  bool reused = false;
  for (size_t r = 0; r < rows_.size(); ++r) {
    Unit unit = obtain(identity(window, r), r, window, reused,
                       [&] { return r == 0 ? measure_full() : measure().row(*rows_[r].cache); });
    progress_.unit(window, r, unit, reused);
  }
  if (measurer) measurer->forget_full();
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (window >= perturbed_windows(r)) continue;
    const Perturbation& perturb = *rows_[r].spec.perturb;
    for (int64_t repeat = 0; repeat < perturb.repeats; ++repeat) {
      Unit unit = obtain(perturbed_identity(window, r, repeat), r, window, reused, [&] {
        return measure().perturbed(*rows_[r].cache, perturb.relative, perturb.seed, repeat, window);
      });
      progress_.perturbed_unit(window, r, repeat, unit, reused);
    }
  }
}

/// nullopt if a unit of another shard is not there yet.
std::optional<std::vector<RowUnits>> Run::collect() const {
  std::vector<RowUnits> all(rows_.size());
  for (size_t r = 0; r < rows_.size(); ++r) {
    auto take = [&](const UnitIdentity& identity, std::vector<Unit>& into) {
      auto unit = store_.find(identity.key(), experiment_.scored);
      if (unit) into.push_back(std::move(*unit));
      return unit.has_value();
    };
    for (int64_t w = 0; w < experiment_.windows; ++w) {
      if (!take(identity(w, r), all[r].windows)) return std::nullopt;
    }
    if (!rows_[r].spec.perturb) continue;
    all[r].perturbed.resize(static_cast<size_t>(rows_[r].spec.perturb->repeats));
    for (size_t repeat = 0; repeat < all[r].perturbed.size(); ++repeat) {
      for (int64_t w = 0; w < perturbed_windows(r); ++w) {
        auto of_repeat = perturbed_identity(w, r, static_cast<int64_t>(repeat));
        if (!take(of_repeat, all[r].perturbed[repeat])) return std::nullopt;
      }
    }
  }
  return all;
}

ResultFile Run::result(const std::vector<RowUnits>& units) const {
  std::set<std::string> capabilities;
  for (const RowUnits& row : units) {
    for (const Unit& unit : row.windows) capabilities.insert(unit.capability);
  }
  ResultFile result;
  static_cast<Provenance&>(result) = provenance_of(experiment_, inputs_.hashes, capabilities);
  result.capability = at::get_cpu_capability();
  result.bos = inputs_.bos;
  result.windows = experiment_.windows;
  result.length = experiment_.length;
  result.scored = experiment_.scored;
  for (size_t r = 0; r < rows_.size(); ++r) {
    RowResult row = assemble_row(units[r], units[0]);
    row.name = rows_[r].spec.name;
    row.section = rows_[r].spec.section;
    row.config = rows_[r].spec.config();
    row.looks_ahead = rows_[r].cache && rows_[r].cache->looks_ahead();
    if (r == 0) row.no_effect = false;  // it is what the others are compared with
    result.rows.push_back(std::move(row));
  }
  result.key_statistics = units[0].windows[0].key_statistics;
  return result;
}

std::optional<ResultFile> Run::all_windows() {
  progress_.start(plan());
  for (int64_t w = 0; w < experiment_.windows; ++w) {
    if (mine(w)) measure_window(w);
  }
  auto units = collect();
  if (!units) return std::nullopt;
  std::error_code ignored;
  std::filesystem::create_directories(options_.out, ignored);
  ResultFile made = result(*units);
  std::vector<std::string> names;
  for (const RunRow& row : rows_) names.push_back(row.spec.name);
  write_losses(names, *units, options_.out / (experiment_.name + ".safetensors"));
  write_result(made, options_.out / (experiment_.name + ".json"));
  return made;
}

}  // namespace

Shard Shard::parse(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  auto [slash, bad] = std::from_chars(text.data(), end, shard.k);
  bool good = bad == std::errc() && slash != end && *slash == '/';
  if (good) {
    auto [last, also_bad] = std::from_chars(slash + 1, end, shard.n);
    good = also_bad == std::errc() && last == end && shard.k >= 1 && shard.k <= shard.n;
  }
  if (!good) throw InputError(fmt::format("--shard: found '{}', expected K/N with K from 1 to N", text));
  return shard;
}

std::optional<ResultFile> run_experiment(const Experiment& experiment, const RunOptions& options,
                                         RunProgress& progress) {
  if (experiment.recall || experiment.stream) {
    const char* found = experiment.recall ? "recall" : "stream";
    throw InputError(
        fmt::format("{0}: found \"{1}\", expected \"windows\": kvcost {1} runs it", experiment.name, found));
  }
  return Run(experiment, options, progress).all_windows();
}

}  // namespace kvcost
