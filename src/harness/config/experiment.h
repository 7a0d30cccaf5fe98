#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvcost {

/// Repeats of a row with embeddings multiplied by 1 + relative * N(0, 1).
struct Perturbation {
  double relative = 0;
  int64_t repeats = 0, seed = 0;
  int64_t windows = 0;  ///< the first so many; 0 = all
};

/// One compressed cache, after lists were multiplied out.
struct RowSpec {
  std::string name, section;
  nlohmann::json evict, keys, values;  ///< null where the row has none
  int64_t exact_last = 0;
  std::optional<Perturbation> perturb;
  std::string path;  ///< "rows[3]", for errors

  /// What can change the row's numbers: evict, keys, values, exact_last, where given.
  nlohmann::json config() const;
};

/// Facts placed in a text and two questions about them (docs/definitions.md, Recall).
struct RecallSpec {
  int64_t cases = 0;
  std::vector<double> depths;  ///< of the follow-up's fact; the first question's is at the next one
  int64_t context_tokens = 0;
  int64_t seed = 0;
};

/// One long text through each row's cache (docs/definitions.md, Stream).
struct StreamSpec {
  int64_t tokens = 0;
  int64_t chunk = 0;  ///< tokens run at once
  std::optional<int64_t>
      full_limit;  ///< where the full cache ends; the model's trained positions if not given
};

/// The name of the row that is always measured first.
inline constexpr const char* kFullCacheName = "full cache";

struct Experiment {
  std::string name, model;
  std::vector<std::string> text;
  bool special_tokens = false;
  int64_t windows = 0, length = 0, scored = 0;
  std::optional<RecallSpec> recall;  ///< in place of windows, which are then 0
  std::optional<StreamSpec> stream;  ///< likewise
  std::string dtype = "fp32";
  int64_t threads = 0;        ///< 0 = one for each core
  std::vector<RowSpec> rows;  ///< without the full cache
  nlohmann::json config;      ///< as written, overrides applied, lists not yet multiplied out
};

/// What the command line changes in an experiment.
struct ExperimentChanges {
  std::vector<std::string>
      set;  ///< "windows.count=1", "rows[3].evict.capacity=64"; a JSON value or bare text
  std::optional<std::string> rows;  ///< regular expression that a row's name must match somewhere
  std::optional<int64_t> windows, threads;
  std::optional<int64_t> cases = std::nullopt;  ///< of a recall experiment
};

/// JSON with comments, validated against configs/schema.json, grids multiplied out (at most 10,000 rows),
/// names filled in and unique. `what` names the text in errors and, less its folder and ending, the
/// experiment. Policies' and codecs' own knobs are not looked at. InputError: "x.json: rows[3].evict...".
Experiment parse_experiment(std::string_view text, const std::string& what,
                            const ExperimentChanges& changes = {});
Experiment read_experiment(const std::filesystem::path& path, const ExperimentChanges& changes = {});

/// The schema that `configs/schema.json` held when this program was built.
const nlohmann::json& experiment_schema();

}  // namespace kvcost
