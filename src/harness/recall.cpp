#include "src/harness/recall.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <memory>
#include <set>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/open_model.h"
#include "src/harness/provenance.h"
#include "src/harness/recall_assemble.h"
#include "src/harness/recall_cases.h"
#include "src/harness/recall_measure.h"
#include "src/text/windows.h"

namespace kvcost {
namespace {

/// A row decided at one point: the column of units that one line of the table needs.
struct Column {
  size_t row;
  std::string decided;
};

struct Row {
  RowSpec spec;
  std::unique_ptr<RecallRowCache> cache;  ///< none: the full cache
};

class Recall {
 public:
  Recall(const Experiment& experiment, const RunOptions& options, RunProgress& progress);
  std::optional<RecallResult> all_cases();

 private:
  void add_rows();
  void read_texts(const std::vector<std::filesystem::path>& folders);
  void check_model() const;
  RunProgress::Plan plan() const;
  void measure_case(size_t index);
  UnitIdentity identity(size_t index, const Column& column) const;
  const Decoder& decoder();
  std::optional<std::vector<std::vector<Unit>>> collect() const;
  RecallResult result(const std::vector<std::vector<Unit>>& units) const;
  int64_t scored(size_t index) const { return static_cast<int64_t>(answer_positions(cases_[index]).size()); }
  bool mine(size_t index) const { return cases_[index].number % options_.shard.n == options_.shard.k - 1; }

  const Experiment& experiment_;
  const RunOptions& options_;
  RunProgress& progress_;
  UnitStore store_;
  OpenedModel model_;
  InputHashes inputs_;
  std::vector<RecallCase> cases_;
  std::vector<Row> rows_;        ///< the full cache first
  std::vector<Column> columns_;  ///< row by row
  std::unique_ptr<Decoder> decoder_;
};

Recall::Recall(const Experiment& experiment, const RunOptions& options, RunProgress& progress)
    : experiment_(experiment),
      options_(options),
      progress_(progress),
      store_(options.store, [&progress](const std::string& line) { progress.note(line); }) {
  add_rows();
  model_ = open_model(experiment.model);
  read_texts(options.text_folders);
  check_model();
  inputs_.weights = model_.weights->hash();
  inputs_.tokenizer = model_.tokenizer->hash();
  model_.close_tokenizer();
  if (experiment.threads > 0) at::set_num_threads(static_cast<int>(experiment.threads));
}

void Recall::add_rows() {
  RowSpec full;
  full.name = kFullCacheName;
  rows_.push_back({full, nullptr});
  for (const RowSpec& spec : experiment_.rows)
    rows_.push_back({spec, std::make_unique<RecallRowCache>(spec)});
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].spec.evict.is_null()) {
      columns_.push_back({r, ""});
      continue;
    }
    for (const char* decided : kDecisionPoints) columns_.push_back({r, decided});
  }
}

void Recall::read_texts(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& path : experiment_.text) paths.push_back(find_input(path, folders));
  std::vector<RecallText> texts;
  std::string digests;
  for (const auto& path : text_files(paths)) {
    if (path.extension() == ".json") {
      throw InputError(
          fmt::format("{}: found token ids, expected text: facts are placed in it", path.string()));
    }
    texts.push_back({path.string(), read_text(path)});
    digests += sha256(texts.back().text) + "\n";
  }
  inputs_.text = sha256(digests);
  cases_ = make_recall_cases(*experiment_.recall, texts, *model_.tokenizer);
}

void Recall::check_model() const {
  const ModelConfig& config = model_.weights->config();
  int64_t longest = 0;
  for (const RecallCase& of : cases_) {
    longest = std::max(longest, static_cast<int64_t>(of.ids.size()));
    check_tokens(model_, of.ids);
  }
  if (config.sliding_window && longest > *config.sliding_window) {
    throw InputError(
        fmt::format("recall.context_tokens: found {}, which the questions make {}, expected at "
                    "most {} in all: {} attends no further",
                    experiment_.recall->context_tokens, longest, *config.sliding_window, experiment_.model));
  }
  if (config.max_positions > 0 && longest > config.max_positions) {
    progress_.note(fmt::format("cases of {} tokens are longer than the {} that {} was trained on", longest,
                               config.max_positions, experiment_.model));
  }
}

/// Made only when a unit is missing.
const Decoder& Recall::decoder() {
  if (!decoder_) decoder_ = load_decoder(model_, experiment_.dtype);
  return *decoder_;
}

RunProgress::Plan Recall::plan() const {
  RunProgress::Plan plan;
  plan.name = experiment_.name, plan.model = experiment_.model;
  plan.window_name = "case";
  for (const Column& column : columns_) {
    const RowSpec& spec = rows_[column.row].spec;
    plan.rows.push_back(column.decided.empty() ? spec.name
                                               : fmt::format("{} [{}]", spec.name, column.decided));
    plan.sections.push_back(spec.section);
  }
  for (size_t i = 0; i < cases_.size(); ++i) {
    if (mine(i)) plan.windows.push_back(static_cast<int64_t>(i));
  }
  return plan;
}

UnitIdentity Recall::identity(size_t index, const Column& column) const {
  const RecallCase& of = cases_[index];
  nlohmann::json decided_at;
  if (!column.decided.empty()) decided_at = prompt_of(of, column.decided);
  return {inputs_.weights,
          inputs_.tokenizer,
          hash_of_ids(of.ids),
          experiment_.dtype,
          scored(index),
          rows_[column.row].spec.config(),
          nullptr,
          {{"positions", answer_positions(of)}, {"decided_at", decided_at}}};
}

void Recall::measure_case(size_t index) {
  std::unique_ptr<CaseMeasurer> measurer;
  auto measure = [&]() -> CaseMeasurer& {
    if (!measurer) measurer = std::make_unique<CaseMeasurer>(decoder(), cases_[index]);
    return *measurer;
  };
  for (size_t first = 0, last = 0; first < columns_.size(); first = last) {
    const Row& row = rows_[columns_[first].row];
    std::vector<std::optional<Unit>> found;
    std::vector<size_t> missing;
    std::vector<int64_t> decided_at;
    for (last = first; last < columns_.size() && columns_[last].row == columns_[first].row; ++last) {
      found.push_back(store_.find(identity(index, columns_[last]).key(), scored(index)));
      if (found.back() && found.back()->is_top1.empty()) found.back().reset();
      if (found.back()) continue;
      missing.push_back(last - first);
      decided_at.push_back(prompt_of(cases_[index], columns_[last].decided));
    }
    std::vector<Unit> made;
    if (!missing.empty()) {
      try {
        made = row.cache ? measure().row(*row.cache, decided_at) : std::vector<Unit>{measure().full()};
      } catch (const Failure& failure) {
        throw Failure(fmt::format("row '{}', case {}: {}", row.spec.name, index + 1, failure.what()));
      }
    }
    for (size_t i = 0; i < missing.size(); ++i) {
      const UnitIdentity unit = identity(index, columns_[first + missing[i]]);
      store_.put(unit.key(), unit, made[i]);
      found[missing[i]] = std::move(made[i]);
    }
    for (size_t i = 0, next = 0; i < found.size(); ++i) {
      const bool measured = next < missing.size() && missing[next] == i;
      next += measured;
      progress_.unit(static_cast<int64_t>(index), first + i, *found[i], !measured);
    }
  }
}

/// [columns][cases]; nullopt if a unit of another shard is not there yet.
std::optional<std::vector<std::vector<Unit>>> Recall::collect() const {
  std::vector<std::vector<Unit>> all(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    for (size_t i = 0; i < cases_.size(); ++i) {
      auto unit = store_.find(identity(i, columns_[c]).key(), scored(i));
      if (!unit) return std::nullopt;
      all[c].push_back(std::move(*unit));
    }
  }
  return all;
}

RecallResult Recall::result(const std::vector<std::vector<Unit>>& units) const {
  std::set<std::string> capabilities;
  for (const auto& column : units) {
    for (const Unit& unit : column) capabilities.insert(unit.capability);
  }
  RecallResult result;
  static_cast<Provenance&>(result) = provenance_of(experiment_, inputs_, capabilities);
  result.cases = experiment_.recall->cases;
  result.depths = experiment_.recall->depths;
  for (size_t i = 0; i < cases_.size(); ++i) {
    result.context_tokens += static_cast<double>(cases_[i].context_end) / static_cast<double>(cases_.size());
    result.answer_tokens += static_cast<double>(scored(i)) / 2 / static_cast<double>(cases_.size());
  }
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Row& row = rows_[columns_[c].row];
    if (columns_[c].row == result.rows.size()) {
      result.rows.push_back({row.spec.name,
                             row.spec.section,
                             row.spec.config(),
                             row.cache && row.cache->whole->looks_ahead(),
                             {},
                             {}});
    }
    RecallCell cell = assemble_cell(columns_[c].decided, cases_, units[c], units[0]);
    if (c == 0) cell.no_effect = false;  // it is what the others are compared with
    result.rows.back().cells.push_back(std::move(cell));
    if (columns_[c].decided == "both") {
      result.rows.back().follow_up_price_bits = follow_up_price(cases_, units[c - 1], units[c]);
    }
  }
  return result;
}

std::optional<RecallResult> Recall::all_cases() {
  progress_.start(plan());
  for (size_t i = 0; i < cases_.size(); ++i) {
    if (mine(i)) measure_case(i);
  }
  auto units = collect();
  if (!units) return std::nullopt;
  std::error_code ignored;
  std::filesystem::create_directories(options_.out, ignored);
  RecallResult made = result(*units);
  write_recall_result(made, options_.out / (experiment_.name + ".json"));
  return made;
}

}  // namespace

std::optional<RecallResult> run_recall(const Experiment& experiment, const RunOptions& options,
                                       RunProgress& progress) {
  if (!experiment.recall) {
    throw InputError(fmt::format("{}: recall: found nothing, expected an object", experiment.name));
  }
  return Recall(experiment, options, progress).all_cases();
}

}  // namespace kvcost
