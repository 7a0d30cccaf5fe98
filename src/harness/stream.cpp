#include "src/harness/stream.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "src/base/error.h"
#include "src/harness/open_model.h"
#include "src/harness/provenance.h"
#include "src/harness/stream_assemble.h"
#include "src/harness/stream_measure.h"
#include "src/text/windows.h"

namespace kvcost {
namespace {

struct Row {
  explicit Row(const RowSpec& of) : spec(of) {
    const LivingCache cache = living_cache();
    renumbered = cache.renumbered();
    bounded = cache.policy() != nullptr && cache.policy()->capacity() != kNever;
  }
  /// Made for every run: what it holds in the end is memory that the next row's run would count.
  LivingCache living_cache() const { return {spec.config(), spec.path}; }

  RowSpec spec;
  bool renumbered = false, bounded = false;
  int64_t tokens = 0;  ///< it is run to here
};

class Stream {
 public:
  Stream(const Experiment& experiment, const RunOptions& options, RunProgress& progress);
  std::optional<StreamResult> all_rows();

 private:
  void read_text();
  void check_model();
  RunProgress::Plan plan() const;
  void measure_row(size_t mine);
  UnitIdentity identity(size_t row) const;
  const Decoder& decoder();
  std::optional<std::vector<Unit>> collect() const;
  StreamResult result(const std::vector<Unit>& units) const;

  const Experiment& experiment_;
  const StreamSpec& spec_;
  const RunOptions& options_;
  RunProgress& progress_;
  UnitStore store_;
  OpenedModel model_;
  InputHashes inputs_;
  std::optional<int64_t> bos_;
  std::vector<int32_t> ids_;
  int64_t documents_ = 0, trained_ = 0, full_limit_ = 0;
  std::vector<Row> rows_;     ///< the full cache first
  std::vector<size_t> mine_;  ///< those of this shard
  std::unique_ptr<Decoder> decoder_;
};

Stream::Stream(const Experiment& experiment, const RunOptions& options, RunProgress& progress)
    : experiment_(experiment),
      spec_(*experiment.stream),
      options_(options),
      progress_(progress),
      store_(options.store, [&progress](const std::string& line) { progress.note(line); }) {
  RowSpec full;
  full.name = kFullCacheName;
  rows_.emplace_back(full);
  for (const RowSpec& spec : experiment.rows) rows_.emplace_back(spec);
  model_ = open_model(experiment.model);
  read_text();
  check_model();
  for (size_t r = 0; r < rows_.size(); ++r) {
    rows_[r].tokens = rows_[r].bounded ? spec_.tokens : full_limit_;
    if (static_cast<int64_t>(r) % options.shard.n == options.shard.k - 1) mine_.push_back(r);
  }
  inputs_.weights = model_.weights->hash();
  inputs_.tokenizer = model_.tokenizer->hash();
  model_.close_tokenizer();
  if (experiment.threads > 0) at::set_num_threads(static_cast<int>(experiment.threads));
}

/// The documents one after another, as long as tokens are wanted.
void Stream::read_text() {
  std::vector<std::filesystem::path> paths;
  for (const std::string& path : experiment_.text) paths.push_back(find_input(path, options_.text_folders));
  const Corpus corpus =
      read_corpus(paths, *model_.tokenizer, model_.weights->config().vocabulary, experiment_.special_tokens);
  inputs_.text = corpus.hash;
  bos_ = corpus.bos;
  size_t have = 0;
  for (const Document& document : corpus.documents) {
    have += document.ids.size();
    const size_t wanted = static_cast<size_t>(spec_.tokens) - ids_.size();
    if (wanted == 0) continue;
    ids_.insert(ids_.end(), document.ids.begin(),
                document.ids.begin() + static_cast<ptrdiff_t>(std::min(wanted, document.ids.size())));
    ++documents_;
  }
  if (ids_.size() < static_cast<size_t>(spec_.tokens)) {
    throw InputError(fmt::format("too little text: have {} tokens in {} document{}, need {}", have,
                                 corpus.documents.size(), corpus.documents.size() == 1 ? "" : "s",
                                 spec_.tokens));
  }
  if (documents_ > 1) {
    progress_.note(fmt::format("{} documents follow one another as one text", documents_));
  }
}

void Stream::check_model() {
  const ModelConfig& config = model_.weights->config();
  check_tokens(model_, ids_);
  if (config.sliding_window && spec_.tokens > *config.sliding_window) {
    throw InputError(fmt::format("stream.tokens: found {}, expected at most {}: {} attends no further",
                                 spec_.tokens, *config.sliding_window, experiment_.model));
  }
  if (config.max_positions <= 0 && !spec_.full_limit) {
    throw InputError(fmt::format(
        "stream.full_limit: found nothing, expected an integer: {} does not say what it was trained on",
        experiment_.model));
  }
  full_limit_ = std::min(spec_.tokens, spec_.full_limit.value_or(config.max_positions));
  trained_ = config.max_positions > 0 ? config.max_positions : *spec_.full_limit;
}

/// Made only when a unit is missing.
const Decoder& Stream::decoder() {
  if (!decoder_) decoder_ = load_decoder(model_, experiment_.dtype);
  return *decoder_;
}

RunProgress::Plan Stream::plan() const {
  RunProgress::Plan plan;
  plan.name = experiment_.name, plan.model = experiment_.model;
  plan.window_name.clear();
  plan.windows = {0};
  plan.paired = false;
  for (size_t r : mine_) {
    plan.rows.push_back(rows_[r].spec.name);
    plan.sections.push_back(rows_[r].spec.section);
    plan.row_tokens.push_back(rows_[r].tokens);
  }
  return plan;
}

UnitIdentity Stream::identity(size_t row) const {
  const Row& of = rows_[row];
  const std::vector<int32_t> ids(ids_.begin(), ids_.begin() + of.tokens);
  UnitIdentity unit{inputs_.weights, inputs_.tokenizer, hash_of_ids(ids), experiment_.dtype,
                    of.tokens - 1,   of.spec.config(),  nullptr};
  unit.stream = true;
  return unit;
}

/// The row mine_[mine].
void Stream::measure_row(size_t mine) {
  const Row& of = rows_[mine_[mine]];
  const UnitIdentity unit = identity(mine_[mine]);
  const std::string key = unit.key();
  if (auto found = store_.find(key, unit.scored)) {
    progress_.unit(0, mine, *found, true);
    return;
  }
  try {
    const auto told = [&](int64_t tokens, double seconds) { progress_.part(mine, tokens, seconds); };
    LivingCache cache = of.living_cache();
    const Unit made = measure_stream(decoder(), std::span(ids_).first(static_cast<size_t>(of.tokens)),
                                     spec_.chunk, cache, told);
    store_.put(key, unit, made);
    progress_.unit(0, mine, made, false);
  } catch (const Failure& failure) {
    throw Failure(fmt::format("row '{}': {}", of.spec.name, failure.what()));
  }
}

/// nullopt if a unit of another shard is not there yet.
std::optional<std::vector<Unit>> Stream::collect() const {
  std::vector<Unit> units;
  for (size_t r = 0; r < rows_.size(); ++r) {
    auto unit = store_.find(identity(r).key(), rows_[r].tokens - 1);
    if (!unit) return std::nullopt;
    units.push_back(std::move(*unit));
  }
  return units;
}

StreamResult Stream::result(const std::vector<Unit>& units) const {
  std::set<std::string> capabilities;
  for (const Unit& unit : units) capabilities.insert(unit.capability);
  StreamResult result;
  static_cast<Provenance&>(result) = provenance_of(experiment_, inputs_, capabilities);
  result.bos = bos_;
  result.documents = documents_;
  result.tokens = spec_.tokens;
  result.trained_tokens = trained_;
  result.full_limit = full_limit_;
  result.block_tokens = kStreamBlock;
  for (const Row& row : rows_) {
    StreamRow made;
    made.name = row.spec.name;
    made.section = row.spec.section;
    made.config = row.spec.config();
    made.renumbered = row.renumbered;
    result.rows.push_back(std::move(made));
  }
  assemble_stream(result, units);
  return result;
}

std::optional<StreamResult> Stream::all_rows() {
  progress_.start(plan());
  for (size_t i = 0; i < mine_.size(); ++i) measure_row(i);
  const auto units = collect();
  if (!units) return std::nullopt;
  std::error_code ignored;
  std::filesystem::create_directories(options_.out, ignored);
  StreamResult made = result(*units);
  write_stream_losses(made, *units, options_.out / (experiment_.name + ".safetensors"));
  write_stream_result(made, options_.out / (experiment_.name + ".json"));
  return made;
}

}  // namespace

std::optional<StreamResult> run_stream(const Experiment& experiment, const RunOptions& options,
                                       RunProgress& progress) {
  if (!experiment.stream) {
    throw InputError(fmt::format("{}: stream: found nothing, expected an object", experiment.name));
  }
  return Stream(experiment, options, progress).all_rows();
}

}  // namespace kvcost
