#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "src/cli/commands.h"
#include "src/cli/experiment_options.h"
#include "src/cli/interrupted.h"
#include "src/cli/live_table.h"
#include "src/harness/open_model.h"
#include "src/harness/runner.h"
#include "src/report/key_statistics.h"
#include "src/report/table.h"

namespace kvcost {
namespace {

struct Options {
  std::string config;
  ExperimentChanges changes;
  std::string out = "results", store = "runs", shard = "1/1";
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
  RunOptions run_options;
  run_options.out = options.out;
  run_options.store = options.store;
  run_options.shard = Shard::parse(options.shard);
  std::filesystem::path folder = std::filesystem::absolute(options.config).parent_path();
  run_options.text_folders = {folder, folder.parent_path()};
  run_options.key_statistics = statistics_of;
  std::signal(SIGINT, interrupted);
  std::optional<ResultFile> result;
  {
    auto progress = make_progress(isatty(STDERR_FILENO) != 0);
    result = run_experiment(experiment, run_options, *progress);
  }
  if (result) {
    std::optional<Losses> losses;
    if (wants_losses(*result, {})) {
      std::filesystem::path path = std::filesystem::path(options.out) / (experiment.name + ".safetensors");
      losses = read_losses(path, *result);
    }
    fmt::print("{}", table(std::span(&*result, 1), {}, std::span(&losses, 1)));
  } else {
    fmt::print("shard {} is done; the shard that finishes last writes {}/{}.json\n", options.shard,
               options.out, experiment.name);
  }
}

}  // namespace

void register_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Measure a config's rows and print their table");
  command->add_option("CONFIG", options->config, "Config file, e.g. configs/quick.json")->required();
  add_experiment_options(*command, options->changes);
  command->add_option("--out", options->out, "Folder for NAME.json and NAME.safetensors")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--store", options->store, "Folder of finished units, shared by runs and machines")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--shard", options->shard, "Measure only the K-th of N shares of the windows")
      ->type_name("K/N")
      ->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace kvcost
