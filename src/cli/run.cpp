#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "src/cli/commands.h"
#include "src/cli/experiment_options.h"
#include "src/cli/unit_options.h"
#include "src/harness/open_model.h"
#include "src/harness/runner.h"
#include "src/report/key_statistics.h"
#include "src/report/table.h"

namespace kvcost {
namespace {

struct Options {
  std::string config;
  ExperimentChanges changes;
  UnitOptions units;
};

nlohmann::json statistics_of(const std::vector<LayerKv>& layers, const Decoder& decoder) {
  std::vector<KeyStatistics> all;
  for (size_t i = 0; i < layers.size(); ++i) {
    int layer = static_cast<int>(i);
    all.push_back(key_statistics(layer, layers[i].k_unrotated, decoder.key_bias(layer)));
  }
  return key_statistics_to_json(all);
}

void run(const Options& options) {
  Experiment experiment = read_experiment(options.config, options.changes);
  RunOptions run_options = run_options_of(options.units, options.config);
  run_options.key_statistics = statistics_of;
  std::optional<ResultFile> result =
      measure_shown(options.units, experiment.name,
                    [&](RunProgress& progress) { return run_experiment(experiment, run_options, progress); });
  if (!result) return;
  std::optional<Losses> losses;
  if (wants_losses(*result, {})) {
    std::filesystem::path path = run_options.out / (experiment.name + ".safetensors");
    losses = read_losses(path, *result);
  }
  fmt::print("{}", table(std::span(&*result, 1), {}, std::span(&losses, 1)));
}

}  // namespace

void register_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Measure a config's rows and print their table");
  command->add_option("CONFIG", options->config, "Config file, e.g. configs/quick.json")->required();
  add_experiment_options(*command, options->changes);
  add_unit_options(*command, options->units, "NAME.json and NAME.safetensors", "windows");
  command->callback([options] { run(*options); });
}

}  // namespace kvcost
