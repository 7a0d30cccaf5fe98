#include "src/harness/unit_store.h"

#include <fmt/format.h>

#include <cmath>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/model/formats/safetensors.h"

namespace kvcost {
namespace {

nlohmann::json identity_json(const UnitIdentity& identity) {
  nlohmann::json all = {{"numerics_version", kNumericsVersion},
                        {"weights", identity.weights_sha256},
                        {"tokenizer", identity.tokenizer_sha256},
                        {"ids", identity.ids_sha256},
                        {"dtype", identity.dtype},
                        {"scored", identity.scored},
                        {"row", identity.row},
                        {"perturb", identity.perturb}};
  if (!identity.answers.is_null()) all["answers"] = identity.answers;
  if (identity.stream) all["stream"] = true;
  return all;
}

template <class T>
std::string_view raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Guards the numbers: a safetensors header says nothing of what follows it.
std::string checksum(const Unit& unit, const std::string& facts) {
  std::string all = facts;
  all += raw(unit.loss_bits);
  all += raw(unit.kl_bits);
  all += raw(unit.true_probability_change);
  all += raw(unit.top1_agrees);
  all += raw(unit.is_top1);
  return sha256(all);
}

std::string facts_text(const Unit& unit) {
  nlohmann::json facts = {{"tokens_kept", unit.tokens_kept},
                          {"stored_bytes_per_token", unit.stored_bytes_per_token},
                          {"effective_bits", unit.effective_bits},
                          {"evicted", unit.evicted},
                          {"changed", unit.changed},
                          {"seconds", unit.seconds},
                          {"capability", unit.capability},
                          {"key_statistics", unit.key_statistics}};
  if (unit.chunk > 0) {
    facts["cache_bytes"] = unit.cache_bytes;
    facts["peak_bytes"] = unit.peak_bytes;
    facts["chunk"] = unit.chunk;
  }
  return facts.dump();
}

bool has_size(const Unit& unit, size_t scored) {
  size_t rest = unit.kl_bits.size();
  return unit.loss_bits.size() == scored && (rest == scored || rest == 0) &&
         unit.true_probability_change.size() == rest && unit.top1_agrees.size() == rest &&
         (unit.is_top1.size() == scored || unit.is_top1.empty());
}

Unit read_unit(const std::filesystem::path& path, const std::string& key, size_t scored) {
  auto file = SafetensorsFile::open(path);
  auto meta = [&](const char* name) {
    auto it = file.metadata().find(name);
    if (it == file.metadata().end()) throw InputError(fmt::format("'{}' is missing", name));
    return it->second;
  };
  if (meta("key") != key) throw InputError("another unit under this name");
  Unit unit;
  unit.loss_bits = file.numbers<double>("loss_bits");
  if (file.find("kl_bits") != nullptr) {
    unit.kl_bits = file.numbers<double>("kl_bits");
    unit.true_probability_change = file.numbers<double>("true_probability_change");
    unit.top1_agrees = file.numbers<uint8_t>("top1_agrees");
  }
  if (file.find("is_top1") != nullptr) unit.is_top1 = file.numbers<uint8_t>("is_top1");
  std::string text = meta("facts");
  if (meta("checksum") != checksum(unit, text)) throw InputError("the checksum does not fit");
  if (!has_size(unit, scored)) throw InputError(fmt::format("not of {} scored tokens", scored));
  auto facts = nlohmann::json::parse(text);
  unit.tokens_kept = facts.at("tokens_kept");
  unit.stored_bytes_per_token = facts.at("stored_bytes_per_token");
  unit.effective_bits = facts.at("effective_bits");
  unit.evicted = facts.at("evicted");
  unit.changed = facts.at("changed");
  unit.seconds = facts.at("seconds");
  unit.cache_bytes = facts.value("cache_bytes", int64_t{0});
  unit.peak_bytes = facts.value("peak_bytes", int64_t{0});
  unit.chunk = facts.value("chunk", int64_t{0});
  unit.capability = facts.at("capability");
  unit.key_statistics = facts.at("key_statistics");
  return unit;
}

}  // namespace

std::string UnitIdentity::key() const { return sha256(identity_json(*this).dump()); }

std::string hash_of_ids(const std::vector<int32_t>& ids) { return sha256(raw(ids)); }

UnitStore::UnitStore(std::filesystem::path folder, std::function<void(const std::string&)> note)
    : folder_(std::move(folder)), note_(std::move(note)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error || !std::filesystem::is_directory(folder_)) {
    throw InputError(fmt::format("{}: cannot make this folder for units: {}", folder_.string(),
                                 error ? error.message() : "not a folder"));
  }
}

std::filesystem::path UnitStore::path_of(const std::string& key) const {
  return folder_ / (key + ".safetensors");
}

bool UnitStore::contains(const std::string& key) const {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path_of(key), ignored);
}

std::optional<Unit> UnitStore::find(const std::string& key, int64_t scored) const {
  if (!contains(key)) return std::nullopt;
  try {
    return read_unit(path_of(key), key, static_cast<size_t>(scored));
  } catch (const InputError& error) {
    note_(fmt::format("{}: damaged, measured again: {}", path_of(key).string(), error.what()));
  } catch (const nlohmann::json::exception&) {
    note_(fmt::format("{}: damaged, measured again", path_of(key).string()));
  }
  return std::nullopt;
}

void UnitStore::put(const std::string& key, const UnitIdentity& identity, const Unit& unit) const {
  if (!has_size(unit, static_cast<size_t>(identity.scored)))
    throw Failure("unit: vectors of different sizes");
  SafetensorsWriter writer;
  std::string facts = facts_text(unit);
  writer.set_metadata("key", key);
  writer.set_metadata("identity", identity_json(identity).dump());
  writer.set_metadata("facts", facts);
  writer.set_metadata("checksum", checksum(unit, facts));
  writer.add("loss_bits", unit.loss_bits);
  if (!unit.kl_bits.empty()) {
    writer.add("kl_bits", unit.kl_bits);
    writer.add("true_probability_change", unit.true_probability_change);
    writer.add("top1_agrees", unit.top1_agrees);
  }
  if (!unit.is_top1.empty()) writer.add("is_top1", unit.is_top1);
  writer.write(path_of(key));
}

}  // namespace kvcost
