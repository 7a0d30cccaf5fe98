// kvcost recall: what eviction drops that a later question asks for.
#include "src/harness/recall.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/cli/commands.h"
#include "src/cli/interrupted.h"
#include "src/cli/live_table.h"
#include "src/report/recall_table.h"

namespace kvcost {
namespace {

struct RecallOptions {
  std::string config, table;
  ExperimentChanges changes;
  std::string out = "results", store = "runs", shard = "1/1";
};

void measure(const RecallOptions& options) {
  Experiment experiment = read_experiment(options.config, options.changes);
  RunOptions run_options;
  run_options.out = options.out;
  run_options.store = options.store;
  run_options.shard = Shard::parse(options.shard);
  std::filesystem::path folder = std::filesystem::absolute(options.config).parent_path();
  run_options.text_folders = {folder, folder.parent_path()};
  std::signal(SIGINT, interrupted);
  std::optional<RecallResult> result;
  {
    auto progress = make_progress(isatty(STDERR_FILENO) != 0);
    result = run_recall(experiment, run_options, *progress);
  }
  if (result) {
    fmt::print("{}", recall_table(*result));
  } else {
    fmt::print("shard {} is done; the shard that finishes last writes {}/{}.json\n", options.shard,
               options.out, experiment.name);
  }
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
  command->add_option("--set", options->changes.set, "Change a config key: recall.context_tokens=2048")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
  command
      ->add_option("--rows", options->changes.rows,
                   "Only rows whose name matches (the full cache always runs)")
      ->type_name("REGEX");
  command->add_option("--cases", options->changes.cases, "Measure this many cases at each depth")
      ->type_name("N");
  command->add_option("--threads", options->changes.threads, "Threads; 0 = one for each core")
      ->type_name("N");
  command->add_option("--out", options->out, "Folder for NAME.json")->type_name("DIR")->capture_default_str();
  command->add_option("--store", options->store, "Folder of finished units, shared by runs and machines")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--shard", options->shard, "Measure only the K-th of N shares of the cases")
      ->type_name("K/N")
      ->capture_default_str();
  command->callback([options] { recall(*options); });
}

}  // namespace kvcost
