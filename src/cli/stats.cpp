// kvcost stats: what the keys of a model look like before RoPE, layer by layer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/cli/commands.h"
#include "src/harness/open_model.h"
#include "src/model/decoder.h"
#include "src/report/key_statistics.h"
#include "src/text/windows.h"

namespace kvcost {
namespace {

struct StatsCommand {
  std::string model;
  std::vector<std::string> text;
  int64_t length = 2048;
  bool all = false, json = false;
};

/// Statistics of every layer's keys over one window.
std::vector<KeyStatistics> measure(const Decoder& decoder, const std::vector<int32_t>& window) {
  std::vector<LayerKv> kept;
  Pass pass;
  pass.ids = window;
  // No hidden state is wanted for itself; one must be asked for.
  pass.wanted_from = static_cast<int64_t>(window.size()) - 1;
  pass.wanted_to = static_cast<int64_t>(window.size());
  pass.keep = &kept;
  decoder.hidden(pass);
  std::vector<KeyStatistics> layers;
  for (size_t i = 0; i < kept.size(); ++i) {
    int layer = static_cast<int>(i);
    layers.push_back(key_statistics(layer, kept[i].k_unrotated, decoder.key_bias(layer)));
  }
  return layers;
}

void run(const StatsCommand& command) {
  if (command.length < 2 || command.length > int64_t{1} << 20) {
    throw InputError(
        fmt::format("--length: found {}, expected from 2 to {}", command.length, int64_t{1} << 20));
  }
  OpenedModel model = open_model(command.model);
  std::vector<std::filesystem::path> paths;
  for (const std::string& path : command.text) paths.push_back(find_input(path, home_folders()));
  const ModelConfig config = model.weights->config();
  Corpus corpus = read_corpus(paths, *model.tokenizer, config.vocabulary, /*special_tokens=*/false);
  std::vector<int32_t> window = cut_windows(corpus, 1, command.length)[0];
  Decoder decoder(*model.weights, Dtype::fp32);
  std::vector<KeyStatistics> layers = measure(decoder, window);
  if (command.json) {
    fmt::print("{}\n", key_statistics_to_json(layers).dump(2));
    return;
  }
  if (command.all) {
    fmt::print("{}", key_statistics_lines(layers, config.head_dim));
    return;
  }
  std::vector<KeyStatistics> two = {layers.front()};
  if (layers.size() > 1) two.push_back(layers[layers.size() / 2]);
  fmt::print("{}", key_statistics_lines(two, config.head_dim));
}

}  // namespace

void register_stats(CLI::App& app) {
  auto command = std::make_shared<StatsCommand>();
  CLI::App* sub =
      app.add_subcommand("stats", "Print statistics of a model's keys, of the first and middle layers");
  sub->add_option("model", command->model, "a model's name, folder or .gguf file")->required();
  sub->add_option("--text", command->text, "file or folder; the first window is used")
      ->required()
      ->type_name("FILE");
  sub->add_option("--length", command->length, "tokens of the window (2048)")->type_name("TOKENS");
  sub->add_flag("--all", command->all, "every layer");
  sub->add_flag("--json", command->json, "every layer, unrounded, as JSON");
  sub->callback([command] { run(*command); });
}

}  // namespace kvcost
