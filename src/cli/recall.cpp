// kvcost recall: what eviction drops that a later question asks for.
#include "src/harness/recall.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/cli/commands.h"
#include "src/cli/experiment_options.h"
#include "src/cli/unit_options.h"
#include "src/report/recall_table.h"

namespace kvcost {
namespace {

struct RecallOptions {
  std::string config, table;
  ExperimentChanges changes;
  UnitOptions units;
};

void measure(const RecallOptions& options) {
  Experiment experiment = read_experiment(options.config, options.changes);
  RunOptions run_options = run_options_of(options.units, options.config);
  std::optional<RecallResult> result =
      measure_shown(options.units, experiment.name,
                    [&](RunProgress& progress) { return run_recall(experiment, run_options, progress); });
  if (result) fmt::print("{}", recall_table(*result));
}

void recall(const RecallOptions& options) {
  if (options.config.empty() == options.table.empty()) {
    throw InputError("recall: expected a CONFIG to measure or --table FILE to print, one of the two");
  }
  if (options.table.empty()) {
    measure(options);
  } else {
    fmt::print("{}", recall_table(read_recall_result(options.table)));
  }
}

}  // namespace

void register_recall(CLI::App& app) {
  auto options = std::make_shared<RecallOptions>();
  CLI::App* command =
      app.add_subcommand("recall", "Ask about facts in the text, twice, under each row's eviction");
  command->add_option("CONFIG", options->config, "Config file, e.g. configs/recall.json");
  command->add_option("--table", options->table, "Print the table of a result, and measure nothing")
      ->type_name("FILE");
  add_change_options(*command, options->changes, "recall.context_tokens=2048");
  command->add_option("--cases", options->changes.cases, "Measure this many cases at each depth")
      ->type_name("N");
  add_unit_options(*command, options->units, "NAME.json", "cases");
  command->callback([options] { recall(*options); });
}

}  // namespace kvcost
