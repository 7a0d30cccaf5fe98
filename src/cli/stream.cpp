// kvcost stream: one text far longer than the model was trained on, through caches that stay small.
#include "src/harness/stream.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "src/cli/commands.h"
#include "src/cli/experiment_options.h"
#include "src/cli/unit_options.h"
#include "src/report/stream_table.h"

namespace kvcost {
namespace {

struct StreamOptions {
  std::string config;
  ExperimentChanges changes;
  UnitOptions units;
};

void stream(const StreamOptions& options) {
  Experiment experiment = read_experiment(options.config, options.changes);
  RunOptions run_options = run_options_of(options.units, options.config);
  std::optional<StreamResult> result =
      measure_shown(options.units, experiment.name,
                    [&](RunProgress& progress) { return run_stream(experiment, run_options, progress); });
  if (result) fmt::print("{}", stream_table(std::span(&*result, 1), TableFormat::text));
}

}  // namespace

void register_stream(CLI::App& app) {
  auto options = std::make_shared<StreamOptions>();
  CLI::App* command =
      app.add_subcommand("stream", "Run one text far past the trained length through each row's cache");
  command->add_option("CONFIG", options->config, "Config file, e.g. configs/stream.json")->required();
  add_change_options(*command, options->changes, "stream.tokens=16384");
  add_unit_options(*command, options->units, "NAME.json and NAME.safetensors", "rows");
  command->callback([options] { stream(*options); });
}

}  // namespace kvcost
