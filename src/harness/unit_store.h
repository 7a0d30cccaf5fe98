#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvcost {

/// Raise it when a change to the program changes numbers: units made before are then not used any more.
inline constexpr int64_t kNumericsVersion = 1;

/// What was measured of one row in one window. Vectors have one entry for each scored token.
struct Unit {
  std::vector<double> loss_bits;
  /// Against the full cache; empty in a perturbed unit.
  std::vector<double> kl_bits, true_probability_change;
  std::vector<uint8_t> top1_agrees;
  /// Of answers (UnitIdentity::answers): whether the true token is the most probable. Empty in other units.
  std::vector<uint8_t> is_top1;
  double tokens_kept = 0, stored_bytes_per_token = 0, effective_bits = 0;
  bool evicted = false, changed = false;
  double seconds = 0;
  /// Of a stream: memory of its caches at the end, most that was resident meanwhile; tokens run at once.
  int64_t cache_bytes = 0, peak_bytes = 0, chunk = 0;
  std::string capability;         ///< "AVX2", of the processor that measured it
  nlohmann::json key_statistics;  ///< of the full cache's keys; null in other units
};

/// All that can change a unit's numbers.
struct UnitIdentity {
  std::string weights_sha256, tokenizer_sha256, ids_sha256, dtype;
  int64_t scored = 0;
  nlohmann::json row;      ///< RowSpec::config()
  nlohmann::json perturb;  ///< null, or {relative, seed, repeat, window}
  /// null, or {positions, decided_at}: only these tokens are scored.
  nlohmann::json answers = nullptr;
  /// A stream's unit has losses alone: it cannot stand for a window's of the same tokens.
  bool stream = false;

  /// SHA-256 of the canonical JSON of all of it and kNumericsVersion.
  std::string key() const;
};

/// SHA-256 of a window's ids.
std::string hash_of_ids(const std::vector<int32_t>& ids);

/// A folder of finished units, one safetensors file each, named by key. Many processes may share it: a file
/// appears whole or not at all, and of two that measure the same unit the last stays.
class UnitStore {
 public:
  /// Makes the folder. `note` is told, in one line, of files that had to be passed over.
  UnitStore(std::filesystem::path folder, std::function<void(const std::string&)> note);
  bool contains(const std::string& key) const;
  /// nullopt if it is not there, or is damaged (noted), or has another number of scored tokens.
  std::optional<Unit> find(const std::string& key, int64_t scored) const;
  void put(const std::string& key, const UnitIdentity& identity, const Unit& unit) const;
  std::filesystem::path path_of(const std::string& key) const;

 private:
  std::filesystem::path folder_;
  std::function<void(const std::string&)> note_;
};

}  // namespace kvcost
