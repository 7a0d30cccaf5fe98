#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/harness/config/experiment.h"
#include "src/harness/config/result_file.h"
#include "src/harness/unit_store.h"
#include "src/model/decoder.h"

namespace kvcost {

/// The k-th of n processes that share the windows, 1 <= k <= n.
struct Shard {
  int64_t k = 1, n = 1;
  /// From "2/8". InputError.
  static Shard parse(const std::string& text);
};

struct RunOptions {
  std::filesystem::path out = "results";  ///< NAME.json and NAME.safetensors go here
  std::filesystem::path store = "runs";   ///< finished units
  Shard shard;
  /// Folders in which texts are looked for that the working folder does not have.
  std::vector<std::filesystem::path> text_folders;
  /// What to record of the full cache's keys in the first window; may be empty.
  std::function<nlohmann::json(const std::vector<LayerKv>&, const Decoder&)> key_statistics;
};

/// Told of what a run does. Row 0 is the full cache; windows count from 0.
class RunProgress {
 public:
  virtual ~RunProgress() = default;
  struct Plan {
    std::string name, model;
    std::vector<std::string> rows, sections;
    std::vector<int64_t> windows;        ///< of this shard
    int64_t perturbed_units = 0;         ///< of this shard
    std::string window_name = "window";  ///< empty: every row has a single unit
    /// Tokens that each row's unit runs, where rows differ in it.
    std::vector<int64_t> row_tokens;
    /// Losses are on the full cache's tokens, so that a row's mean less its mean says something.
    bool paired = true;
  };
  virtual void start(const Plan&) {}
  /// `reused`: it was in the store already.
  virtual void unit(int64_t /*window*/, size_t /*row*/, const Unit&, bool /*reused*/) {}
  virtual void perturbed_unit(int64_t /*window*/, size_t /*row*/, int64_t /*repeat*/, const Unit&,
                              bool /*reused*/) {}
  /// Of the unit that is being measured, so many tokens are done after so long.
  virtual void part(size_t /*row*/, int64_t /*tokens*/, double /*seconds*/) {}
  virtual void note(const std::string& /*line*/) {}
};

/// Measures what the store does not have yet, window by window, the full cache first. Writes the result files
/// and returns the result if all units of all windows are there, nullopt if other shards still have to.
std::optional<ResultFile> run_experiment(const Experiment& experiment, const RunOptions& options,
                                         RunProgress& progress);

}  // namespace kvcost
