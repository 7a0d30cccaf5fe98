#include "src/harness/experiment_inputs.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/text/windows.h"

namespace kvcost {
namespace {

void check_windows(const Experiment& experiment, const ExperimentInputs& inputs,
                   const std::function<void(const std::string&)>& note) {
  const ModelConfig& config = inputs.model.weights->config();
  if (config.sliding_window && experiment.length > *config.sliding_window) {
    throw InputError(fmt::format("windows.length: found {}, expected at most {}: {} attends no further",
                                 experiment.length, *config.sliding_window, experiment.model));
  }
  if (config.max_positions > 0 && experiment.length > config.max_positions) {
    note(fmt::format("windows of {} tokens are longer than the {} that {} was trained on", experiment.length,
                     config.max_positions, experiment.model));
  }
  for (const auto& window : inputs.windows) check_tokens(inputs.model, window);
}

}  // namespace

ExperimentInputs open_inputs(const Experiment& experiment,
                             const std::vector<std::filesystem::path>& text_folders,
                             const std::function<void(const std::string&)>& note) {
  ExperimentInputs inputs;
  inputs.model = open_model(experiment.model);
  std::vector<std::filesystem::path> texts;
  for (const std::string& path : experiment.text) texts.push_back(find_input(path, text_folders));
  Corpus corpus = read_corpus(texts, *inputs.model.tokenizer, inputs.model.weights->config().vocabulary,
                              experiment.special_tokens);
  inputs.windows = cut_windows(corpus, experiment.windows, experiment.length);
  inputs.bos = corpus.bos;
  check_windows(experiment, inputs, note);
  inputs.hashes.text = corpus.hash;
  inputs.hashes.weights = inputs.model.weights->hash();
  inputs.hashes.tokenizer = inputs.model.tokenizer->hash();
  inputs.model.close_tokenizer();
  if (experiment.threads > 0) at::set_num_threads(static_cast<int>(experiment.threads));
  return inputs;
}

}  // namespace kvcost
