#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/harness/config/experiment.h"
#include "src/harness/open_model.h"
#include "src/harness/provenance.h"

namespace kvcost {

/// An experiment's model and windows, open and checked against each other.
struct ExperimentInputs {
  OpenedModel model;
  std::vector<std::vector<int32_t>> windows;
  std::optional<int64_t> bos;  ///< id put before each document, by the tokenizer's own default
  InputHashes hashes;
};

/// `text_folders`: where texts are looked for that the working folder does not have. `note` is told, in one
/// line, of what is odd. Also sets the number of threads that the experiment asks for. InputError.
ExperimentInputs open_inputs(const Experiment& experiment,
                             const std::vector<std::filesystem::path>& text_folders,
                             const std::function<void(const std::string&)>& note);

}  // namespace kvcost
