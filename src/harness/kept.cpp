#include "src/harness/kept.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "src/base/error.h"
#include "src/harness/experiment_inputs.h"
#include "src/harness/kept_measure.h"
#include "src/harness/statistics.h"

namespace kvcost {
namespace {

using Clock = std::chrono::steady_clock;

/// The experiment without the rows that evict nothing.
Experiment evicting(Experiment experiment) {
  if (experiment.recall || experiment.stream) {
    throw InputError(fmt::format("{}: found \"{}\", expected \"windows\"", experiment.name,
                                 experiment.recall ? "recall" : "stream"));
  }
  std::erase_if(experiment.rows, [](const RowSpec& row) { return row.evict.is_null(); });
  const size_t rows = experiment.rows.size();
  if (rows == 0 || rows > KeptResult::kMostRows) {
    throw InputError(fmt::format("{}: found {} rows that evict, expected from 1 to {}", experiment.name, rows,
                                 KeptResult::kMostRows));
  }
  return experiment;
}

/// [layers] of every window -> their means over windows, and the mean of those.
ByLayer averaged(const std::vector<std::vector<double>>& windows) {
  ByLayer result;
  result.layers.assign(windows[0].size(), 0.0);
  for (const auto& window : windows) {
    for (size_t l = 0; l < window.size(); ++l) {
      result.layers[l] += window[l] / static_cast<double>(windows.size());
    }
  }
  result.mean = mean(result.layers);
  return result;
}

/// What windows add up to, before it is averaged.
struct Sums {
  std::vector<std::vector<std::vector<double>>> attention, overlap;  ///< [rows or pairs][windows][layers]
};

class Kept {
 public:
  Kept(Experiment experiment, const RunOptions& options, RunProgress& progress)
      : experiment_(std::move(experiment)), progress_(progress) {
    for (const RowSpec& spec : experiment_.rows) {
      caches_.push_back(std::make_unique<RowCache>(spec.config(), spec.path));
    }
    inputs_ = open_inputs(experiment_, options.text_folders,
                          [&progress](const std::string& line) { progress.note(line); });
  }

  KeptResult all_windows() {
    RunProgress::Plan plan;
    plan.name = experiment_.name, plan.model = experiment_.model;
    for (const RowSpec& spec : experiment_.rows) {
      plan.rows.push_back(spec.name), plan.sections.push_back(spec.section);
    }
    for (int64_t w = 0; w < experiment_.windows; ++w) plan.windows.push_back(w);
    progress_.start(plan);
    const std::unique_ptr<Decoder> decoder = load_decoder(inputs_.model, experiment_.dtype);
    result_ = described(decoder->config().layers);
    Sums sums{std::vector<std::vector<std::vector<double>>>(result_.rows.size()),
              std::vector<std::vector<std::vector<double>>>(result_.pairs.size())};
    for (int64_t w = 0; w < experiment_.windows; ++w) add_window(*decoder, w, sums);
    for (size_t r = 0; r < result_.rows.size(); ++r) result_.rows[r].attention = averaged(sums.attention[r]);
    for (size_t p = 0; p < result_.pairs.size(); ++p) result_.pairs[p].overlap = averaged(sums.overlap[p]);
    return std::move(result_);
  }

 private:
  KeptResult described(int64_t layers) const {
    KeptResult result;
    static_cast<Provenance&>(result) = provenance_of(experiment_, inputs_.hashes, {at::get_cpu_capability()});
    result.bos = inputs_.bos;
    result.windows = experiment_.windows;
    result.length = experiment_.length;
    result.scored = experiment_.scored;
    result.layers = layers;
    for (size_t r = 0; r < caches_.size(); ++r) {
      KeptRow row;
      row.name = experiment_.rows[r].name, row.section = experiment_.rows[r].section;
      row.config = experiment_.rows[r].config();
      row.looks_ahead = caches_[r]->looks_ahead();
      result.rows.push_back(std::move(row));
      for (size_t b = r + 1; b < caches_.size(); ++b) result.pairs.push_back({r, b, {}});
    }
    return result;
  }

  void add_window(const Decoder& decoder, int64_t w, Sums& sums) {
    const ScoredWindow window{decoder, inputs_.windows[w], experiment_.scored};
    const std::vector<LayerKv> full = full_cache_kv(window);
    std::vector<RowLifetimes> rows;
    for (size_t r = 0; r < caches_.size(); ++r) {
      const auto start = Clock::now();
      try {
        rows.push_back(run_lifetimes(window, full, *caches_[r]));
      } catch (const Failure& failure) {
        throw Failure(fmt::format("row '{}', window {}: {}", experiment_.rows[r].name, w, failure.what()));
      }
      Unit unit;
      unit.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      progress_.unit(w, r, unit, false);
      KeptRow& row = result_.rows[r];
      row.tokens_kept += rows[r].tokens_kept / static_cast<double>(experiment_.windows);
      row.evictions += rows[r].ties.evictions, row.ties += rows[r].ties.tied;
    }
    const std::vector<std::vector<double>> attention = attention_kept(window, rows);
    for (size_t r = 0; r < rows.size(); ++r) sums.attention[r].push_back(attention[r]);
    for (size_t p = 0; p < result_.pairs.size(); ++p) {
      sums.overlap[p].push_back(kept_overlap(window, rows[result_.pairs[p].a], rows[result_.pairs[p].b]));
    }
  }

  const Experiment experiment_;
  RunProgress& progress_;
  std::vector<std::unique_ptr<RowCache>> caches_;
  ExperimentInputs inputs_;
  KeptResult result_;
};

}  // namespace

KeptResult run_kept(const Experiment& experiment, const RunOptions& options, RunProgress& progress) {
  KeptResult result = Kept(evicting(experiment), options, progress).all_windows();
  std::error_code ignored;
  std::filesystem::create_directories(options.out, ignored);
  write_kept_result(result, options.out / (experiment.name + "-kept.json"));
  return result;
}

}  // namespace kvcost
