#include "src/harness/open_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/memory.h"
#include "src/harness/config/json_text.h"
#include "src/model/formats/gguf.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<fs::path> model_folders() {
  if (const char* set = std::getenv("KVCOST_MODELS"); set != nullptr && *set != 0) return {set};
  std::vector<fs::path> folders;
  for (const fs::path& home : home_folders()) folders.push_back(home / "models");
  return folders;
}

/// Names in data/models.json; none if there is no such file.
std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const fs::path& home : home_folders()) {
    fs::path path = home / "data" / "models.json";
    if (!is_there(path)) continue;
    nlohmann::json file = parse_bounded_json(read_text(path, 1 << 20), path.string());
    if (!file.is_object() || !file.contains("models") || !file["models"].is_object()) break;
    for (const auto& [name, entry] : file["models"].items()) names.push_back(name);
    break;
  }
  return names;
}

/// A folder with config.json stands for itself, one with a single .gguf for that file.
fs::path inside_folder(const fs::path& folder) {
  if (is_there(folder / "config.json")) return folder;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") found.push_back(entry.path());
  }
  if (found.size() != 1) {
    throw InputError(fmt::format("{}: found {} .gguf files and no config.json, expected a model",
                                 folder.string(), found.size()));
  }
  return found[0];
}

[[noreturn]] void refuse(const std::string& name) {
  std::vector<std::string> known = known_models();
  for (const std::string& entry : known) {
    if (entry == name) {
      throw InputError(fmt::format("model '{}' is not here yet: data/fetch.sh {} gets it", name, name));
    }
  }
  throw InputError(fmt::format("model '{}': no such file, folder or name{}", name,
                               known.empty() ? "" : hint(name, known)));
}

std::unique_ptr<Tokenizer> gguf_tokenizer(const fs::path& path) {
  Gguf file = Gguf::open(path);
  auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  GgufTokenizerData data;
  data.model = file.string(key("model")).value_or("");
  data.pre = file.string(key("pre")).value_or("");
  data.tokens = file.strings(key("tokens")).value_or(std::vector<std::string>());
  data.scores = file.floats(key("scores")).value_or(std::vector<float>());
  data.token_types = file.integers(key("token_type")).value_or(std::vector<int32_t>());
  data.merges = file.strings(key("merges")).value_or(std::vector<std::string>());
  data.bos_id = file.integer(key("bos_token_id"));
  data.eos_id = file.integer(key("eos_token_id"));
  data.padding_id = file.integer(key("padding_token_id"));
  data.add_bos = file.boolean(key("add_bos_token"));
  data.add_space_prefix = file.boolean(key("add_space_prefix"));
  try {
    return make_gguf_tokenizer(std::move(data));
  } catch (const InputError& error) {
    throw InputError(path.string() + ": " + error.what());
  }
}

}  // namespace

std::vector<fs::path> home_folders() {
  std::vector<fs::path> folders = {fs::path()};
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path().parent_path().parent_path());  // build/release/kvcost
  return folders;
}

fs::path find_model(const std::string& name) {
  fs::path path(name);
  bool is_name = name.find('/') == std::string::npos;
  if (is_name) {
    for (const fs::path& folder : model_folders()) {
      if (is_there(folder / name)) path = folder / name;
      if (is_there(folder / name)) break;
    }
  }
  if (!is_there(path)) refuse(name);
  return fs::is_directory(path) ? inside_folder(path) : path;
}

OpenedModel open_model(const std::string& name) {
  OpenedModel model;
  model.name = name;
  model.path = find_model(name);
  model.weights = open_weights(model.path);
  model.tokenizer =
      fs::is_directory(model.path) ? open_tokenizer_folder(model.path) : gguf_tokenizer(model.path);
  return model;
}

std::unique_ptr<Decoder> load_decoder(const OpenedModel& model, const std::string& dtype) {
  auto decoder = std::make_unique<Decoder>(*model.weights, dtype == "bf16" ? Dtype::bf16 : Dtype::fp32);
  model.weights->release_pages();
  return decoder;
}

void OpenedModel::close_tokenizer() {
  tokenizer.reset();
  give_back_freed_memory();
}

void check_tokens(const OpenedModel& model, std::span<const int32_t> ids) {
  const int64_t vocabulary = model.weights->config().vocabulary;
  for (int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    throw InputError(fmt::format("token {}: the model's vocabulary has {}", id, vocabulary));
  }
}

fs::path find_input(const std::string& path, const std::vector<fs::path>& folders) {
  if (is_there(path)) return path;
  for (const fs::path& folder : folders) {
    if (!fs::path(path).is_absolute() && is_there(folder / path)) return folder / path;
  }
  throw InputError(fmt::format("{}: no such file or folder", path));
}

}  // namespace kvcost
