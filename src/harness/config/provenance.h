#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/harness/config/json_reader.h"

namespace kvcost {

/// What every result file says of where it comes from: what was asked of which model and text, and what
/// computed it where.
struct Provenance {
  std::string name;
  nlohmann::json config;  ///< resolved experiment
  std::string model, program_version, commit, host, processor, dtype;
  std::vector<std::string> capabilities;  ///< of the units; a table that mixes kinds says so
  int64_t threads = 0;
  std::string weights_sha256, tokenizer_sha256, text_sha256;
};

/// InputError naming the JSON path.
Provenance provenance_from(const JsonReader& reader);
/// Appends its fields to `object`.
void add_provenance(nlohmann::ordered_json& object, const Provenance& provenance);

/// Larger files are no results.
inline constexpr size_t kLargestResult = size_t{64} << 20;

/// InputError unless the file says that it is `kind` ("recall": of kvcost recall), of this schema version.
void check_kind(const JsonReader& reader, const nlohmann::json& object, const std::string& what,
                const std::string& kind, int64_t schema_version);

/// What measured the result in a file: "windows" (kvcost run), "recall", "stream" or "kept". InputError if it
/// is no JSON object.
std::string result_kind(const std::filesystem::path& path);

}  // namespace kvcost
