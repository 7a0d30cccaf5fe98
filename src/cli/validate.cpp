#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "src/cache/living_cache.h"
#include "src/cache/row_cache.h"
#include "src/cli/commands.h"
#include "src/cli/experiment_options.h"

namespace kvcost {
namespace {

struct ValidateOptions {
  std::vector<std::string> configs;
  ExperimentChanges changes;
  bool list_rows = false;
};

std::string what_is_asked(const Experiment& experiment) {
  if (experiment.recall) {
    return fmt::format("recall in {} cases at {} depths of {} tokens", experiment.recall->cases,
                       experiment.recall->depths.size(), experiment.recall->context_tokens);
  }
  if (experiment.stream) return fmt::format("a stream of {} tokens", experiment.stream->tokens);
  return fmt::format("{} windows of {} tokens, {} scored", experiment.windows, experiment.length,
                     experiment.scored);
}

void validate(const ValidateOptions& options) {
  for (const std::string& path : options.configs) {
    Experiment experiment = read_experiment(path, options.changes);
    for (const RowSpec& row : experiment.rows) {
      RowCache(row.config(), path + ": " + row.path);
      if (experiment.stream) LivingCache(row.config(), path + ": " + row.path);
    }
    fmt::print("{}: good: {}, {} rows and the full cache, {}\n", path, experiment.model,
               experiment.rows.size(), what_is_asked(experiment));
    if (!options.list_rows) continue;
    for (const RowSpec& row : experiment.rows) fmt::print("  {}  {}\n", row.name, row.config().dump());
  }
}

}  // namespace

void register_validate(CLI::App& app) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command =
      app.add_subcommand("validate", "Check configs: keys, values, knobs, names; no model needed");
  command->add_option("CONFIG", options->configs, "Config files")->required();
  command->add_flag("--list", options->list_rows, "Print each row that lists stand for");
  add_experiment_options(*command, options->changes);
  command->callback([options] { validate(*options); });
}

}  // namespace kvcost
