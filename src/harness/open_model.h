#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/model/decoder.h"
#include "src/model/formats/weight_source.h"
#include "src/text/tokenizer.h"

namespace kvcost {

struct OpenedModel {
  std::string name;  ///< as asked for
  std::filesystem::path path;
  std::unique_ptr<WeightSource> weights;
  std::unique_ptr<Tokenizer> tokenizer;

  /// Once all text is tokens: its tables are tens of megabytes.
  void close_tokenizer();
};

/// A folder or .gguf file by path, or NAME: models/NAME (KVCOST_MODELS names another folder than models/),
/// which holds a Hugging Face folder's files or one .gguf. InputError with the nearest name, or with how to
/// fetch it.
std::filesystem::path find_model(const std::string& name);
OpenedModel open_model(const std::string& name);

/// The model's weights in memory, `dtype` "fp32" or "bf16", and no longer in the file's pages.
std::unique_ptr<Decoder> load_decoder(const OpenedModel& model, const std::string& dtype);

/// InputError if the model's vocabulary lacks a token.
void check_tokens(const OpenedModel& model, std::span<const int32_t> ids);

/// `path`, or else the same inside one of `folders`; InputError naming it if there is none.
std::filesystem::path find_input(const std::string& path, const std::vector<std::filesystem::path>& folders);

/// The folders of the program's own checkout, if it runs from one: where models/ and data/ may be.
std::vector<std::filesystem::path> home_folders();

}  // namespace kvcost
