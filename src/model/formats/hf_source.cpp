#include <fmt/format.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/model/formats/read_json.h"
#include "src/model/formats/safetensors.h"
#include "src/model/formats/sources.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kLargestJson = size_t{256} << 20;

/// Tensor name -> shard file name.
std::map<std::string, std::string> read_index(const fs::path& path, std::string_view text) {
  Json root = read_json(text, path.string());
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    throw InputError(fmt::format("{}: weight_map is missing", path.string()));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : root["weight_map"].items()) {
    std::string file = shard.is_string() ? shard.get<std::string>() : "";
    if (file.empty() || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      throw InputError(fmt::format("{}: weight_map '{}' is not the name of a file beside it", path.string(),
                                   printable(name)));
    }
    shard_of[name] = file;
  }
  return shard_of;
}

class HfSource : public WeightSource {
 public:
  explicit HfSource(const fs::path& folder) : folder_(folder) {
    fs::path config_path = folder / "config.json";
    if (!fs::exists(config_path)) {
      throw InputError(fmt::format("{}: no config.json in this folder", folder.string()));
    }
    config_text_ = read_text(config_path, kLargestJson);
    config_ = parse_hf_config(config_text_, config_path.string());
    open_shards();
    for (const ExpectedTensor& expected : expected_tensors(config_)) {
      Entry entry = locate(expected.name);
      check_tensor(expected, entry.tensor->shape, expected.name, entry.file->origin());
      if (!readable(entry.tensor->dtype)) {
        throw InputError(fmt::format("{}: tensor '{}' is {}, expected F32, F16 or BF16", entry.file->origin(),
                                     expected.name, entry.tensor->dtype));
      }
      names_.push_back(expected.name);
      used_.emplace(expected.name, entry);
    }
    refuse_unknown_parts();
  }

  const ModelConfig& config() const override { return config_; }
  const std::vector<std::string>& names() const override { return names_; }

  std::optional<TensorInfo> find(std::string_view name) const override {
    auto found = used_.find(name);
    if (found == used_.end()) return std::nullopt;
    return TensorInfo{found->second.tensor->shape, found->second.tensor->dtype};
  }

  void read(std::string_view name, float* out) const override {
    auto found = used_.find(name);
    if (found == used_.end()) throw Failure(fmt::format("{}: no tensor '{}'", folder_.string(), name));
    const SafetensorsTensor& tensor = *found->second.tensor;
    dequantize(*tensor_type(tensor.dtype), found->second.file->file().data() + tensor.begin, tensor.numbers(),
               out);
  }

  void release_pages() const override {
    for (const auto& [name, file] : files_) file.release();
  }

  std::string hash() const override {
    std::call_once(hashed_, [this] {
      std::string parts = "config.json " + sha256(config_text_) + "\n";
      if (!index_text_.empty()) parts += "index " + sha256(index_text_) + "\n";
      for (const auto& [name, file] : files_) parts += name + " " + sha256(file.file()) + "\n";
      hash_ = sha256(parts);
    });
    return hash_;
  }

  uint64_t file_bytes() const override {
    uint64_t total = 0;
    for (const auto& [name, file] : files_) total += file.file().size();
    return total;
  }

 private:
  struct Entry {
    const SafetensorsFile* file;
    const SafetensorsTensor* tensor;
  };

  static bool readable(std::string_view dtype) { return dtype == "F32" || dtype == "F16" || dtype == "BF16"; }

  /// transformers' order: the single file first.
  void open_shards() {
    fs::path single = folder_ / "model.safetensors", index = folder_ / "model.safetensors.index.json";
    if (fs::exists(single)) {
      const SafetensorsFile& file =
          files_.emplace("model.safetensors", SafetensorsFile::open(single)).first->second;
      for (const std::string& name : file.names()) shard_of_[name] = "model.safetensors";
      weights_origin_ = single.string();
      return;
    }
    if (!fs::exists(index)) {
      throw InputError(fmt::format(
          "{}: neither model.safetensors nor model.safetensors.index.json in this folder", folder_.string()));
    }
    weights_origin_ = index.string();
    index_text_ = read_text(index, kLargestJson);
    shard_of_ = read_index(index, index_text_);
    for (const auto& [name, shard] : shard_of_) {
      if (files_.count(shard) != 0) continue;
      if (!fs::exists(folder_ / shard)) {
        throw InputError(fmt::format("{}: names '{}', which is not there", index.string(), printable(shard)));
      }
      files_.emplace(shard, SafetensorsFile::open(folder_ / shard));
    }
  }

  Entry locate(const std::string& name) {
    auto shard = shard_of_.find(name);
    if (shard == shard_of_.end()) {
      throw InputError(fmt::format("{}: tensor '{}' is missing", weights_origin_, name));
    }
    const SafetensorsFile& file = files_.at(shard->second);
    const SafetensorsTensor* tensor = file.find(name);
    if (tensor == nullptr) {
      throw InputError(fmt::format("{}: tensor '{}' is missing, though {} says it is here", file.origin(),
                                   name, weights_origin_));
    }
    return {&file, tensor};
  }

  /// A bias or a norm that the config does not speak of would silently change the numbers.
  void refuse_unknown_parts() const {
    for (const auto& [name, shard] : shard_of_) {
      bool part = name.starts_with("model.layers.") && !name.ends_with(".rotary_emb.inv_freq");
      if (part && used_.count(name) == 0) {
        throw InputError(fmt::format("{}: tensor '{}' is no part of a {} model of {} layers", weights_origin_,
                                     printable(name), config_.architecture, config_.layers));
      }
    }
  }

  fs::path folder_;
  std::string weights_origin_, config_text_, index_text_;
  ModelConfig config_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> shard_of_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, Entry, std::less<>> used_;
  mutable std::once_flag hashed_;
  mutable std::string hash_;
};

}  // namespace

std::unique_ptr<WeightSource> open_hf_folder(const fs::path& folder) {
  return std::make_unique<HfSource>(folder);
}

}  // namespace kvcost
