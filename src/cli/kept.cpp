// kvcost kept: which tokens the rows of a config keep, how far they agree, and how much attention that is.
#include "src/harness/kept.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "src/cli/commands.h"
#include "src/cli/experiment_options.h"
#include "src/cli/live_table.h"
#include "src/cli/table_format.h"
#include "src/cli/unit_options.h"
#include "src/report/kept_table.h"

namespace kvcost {
namespace {

struct KeptCommand {
  std::string config, format = "text", out = "results";
  ExperimentChanges changes;
  bool layers = false;
};

void kept(const KeptCommand& command) {
  const KeptTableOptions options{table_format_of(command.format), command.layers};
  Experiment experiment = read_experiment(command.config, command.changes);
  if (!command.changes.windows && !experiment.recall) {
    experiment.windows = 1;
    experiment.config["windows"]["count"] = 1;
  }
  UnitOptions folders;
  folders.out = command.out;
  auto progress = make_progress(isatty(STDERR_FILENO) != 0);
  const KeptResult result = run_kept(experiment, run_options_of(folders, command.config), *progress);
  progress.reset();
  fmt::print("{}", kept_tables(std::span(&result, 1), options));
}

}  // namespace

void register_kept(CLI::App& app) {
  auto command = std::make_shared<KeptCommand>();
  CLI::App* sub = app.add_subcommand("kept", "Compare which tokens a config's evicting rows keep");
  sub->add_option("CONFIG", command->config, "Config file, e.g. configs/eviction.json")->required();
  add_experiment_options(*sub, command->changes);
  sub->get_option("--windows")->description("Look at this many windows (1)");
  sub->get_option("--rows")->description("Only rows whose name matches");
  sub->add_flag("--layers", command->layers, "print the numbers of each layer too");
  sub->add_option("--format", command->format, "text, markdown, csv or json")->type_name("FORMAT");
  sub->add_option("--out", command->out, "Folder for NAME-kept.json")
      ->type_name("DIR")
      ->capture_default_str();
  sub->callback([command] { kept(*command); });
}

}  // namespace kvcost
