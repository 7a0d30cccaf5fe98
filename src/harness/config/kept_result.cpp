#include "src/harness/config/kept_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/config/json_reader.h"
#include "src/harness/config/json_text.h"

namespace kvcost {
namespace {

using nlohmann::json;

constexpr int64_t kMostLayers = 10000;
constexpr const char* kKind = "kept";

json by_layer_json(const ByLayer& values) { return {{"mean", values.mean}, {"layers", values.layers}}; }

/// A share: from 0 to 1, but for rounding.
double share_from(const json& value, const std::string& path) {
  if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > 1.001) {
    throw InputError(fmt::format("{}: found {}, expected a number from 0 to 1", path, shown(value)));
  }
  return value.get<double>();
}

ByLayer by_layer_from(const json& object, const std::string& path, int64_t layers) {
  JsonReader reader(object, path);
  ByLayer values;
  values.mean = share_from(reader.at("mean"), path + ".mean");
  for (const json& value : reader.list("layers", static_cast<size_t>(layers))) {
    values.layers.push_back(share_from(value, fmt::format("{}.layers[{}]", path, values.layers.size())));
  }
  if (values.layers.size() != static_cast<size_t>(layers)) {
    reader.refuse("layers", fmt::format("{} numbers", layers));
  }
  return values;
}

KeptRow row_from(const json& object, const std::string& path, int64_t layers) {
  JsonReader reader(object, path);
  KeptRow row;
  row.name = reader.text("name");
  row.section = reader.text("section");
  row.config = reader.at("config");
  row.looks_ahead = reader.boolean("looks_ahead");
  row.tokens_kept = reader.number("tokens_kept");
  row.attention = by_layer_from(reader.at("attention_kept"), path + ".attention_kept", layers);
  row.evictions = reader.integer("evictions_by_score", 0);
  row.ties = reader.integer("ties", 0);
  if (row.ties > row.evictions) reader.refuse("ties", "no more than evictions_by_score");
  return row;
}

KeptPair pair_from(const json& object, const std::string& path, size_t a, size_t b, int64_t layers) {
  JsonReader reader(object, path);
  if (reader.at("rows") != json{a, b}) reader.refuse("rows", json{a, b}.dump());
  return {a, b, by_layer_from(reader.at("jaccard"), path + ".jaccard", layers)};
}

}  // namespace

const ByLayer& KeptResult::overlap(size_t a, size_t b) const {
  const size_t first = std::min(a, b), second = std::max(a, b);
  // Before row `first` come rows.size() - 1, rows.size() - 2, ... pairs.
  return pairs.at(first * (2 * rows.size() - first - 1) / 2 + second - first - 1).overlap;
}

KeptResult parse_kept_result(std::string_view text, const std::string& what) {
  const json object = parse_bounded_json(text, what);
  JsonReader reader(object, what);
  check_kind(reader, object, what, kKind, KeptResult::kSchemaVersion);
  KeptResult result;
  static_cast<Provenance&>(result) = provenance_from(reader);
  if (!reader.at("bos").is_null()) result.bos = reader.integer("bos", 0);
  result.windows = reader.integer("windows", 1);
  result.length = reader.integer("length", 2);
  result.scored = reader.integer("scored", 1);
  result.layers = reader.integer("layers", 1);
  if (result.layers > kMostLayers) reader.refuse("layers", fmt::format("at most {}", kMostLayers));
  for (const json& row : reader.list("rows", KeptResult::kMostRows)) {
    result.rows.push_back(
        row_from(row, fmt::format("{}: rows[{}]", what, result.rows.size()), result.layers));
  }
  const size_t rows = result.rows.size();
  if (rows == 0) reader.refuse("rows", "one at least");
  const json& pairs = reader.list("pairs", rows * (rows - 1) / 2);
  if (pairs.size() != rows * (rows - 1) / 2) reader.refuse("pairs", "one for each two rows");
  for (size_t a = 0; a < rows; ++a) {
    for (size_t b = a + 1; b < rows; ++b) {
      const size_t at = result.pairs.size();
      result.pairs.push_back(
          pair_from(pairs[at], fmt::format("{}: pairs[{}]", what, at), a, b, result.layers));
    }
  }
  return result;
}

KeptResult read_kept_result(const std::filesystem::path& path) {
  return parse_kept_result(read_text(path, kLargestResult), path.string());
}

nlohmann::ordered_json kept_result_to_json(const KeptResult& result) {
  nlohmann::ordered_json object;
  object["kind"] = kKind;
  object["schema_version"] = KeptResult::kSchemaVersion;
  add_provenance(object, result);
  object["bos"] = result.bos ? json(*result.bos) : json();
  object["windows"] = result.windows;
  object["length"] = result.length;
  object["scored"] = result.scored;
  object["layers"] = result.layers;
  object["rows"] = nlohmann::ordered_json::array();
  for (const KeptRow& row : result.rows) {
    object["rows"].push_back({{"name", row.name},
                              {"section", row.section},
                              {"config", row.config},
                              {"looks_ahead", row.looks_ahead},
                              {"tokens_kept", row.tokens_kept},
                              {"attention_kept", by_layer_json(row.attention)},
                              {"evictions_by_score", row.evictions},
                              {"ties", row.ties}});
  }
  object["pairs"] = nlohmann::ordered_json::array();
  for (const KeptPair& pair : result.pairs) {
    object["pairs"].push_back({{"rows", {pair.a, pair.b}}, {"jaccard", by_layer_json(pair.overlap)}});
  }
  return object;
}

void write_kept_result(const KeptResult& result, const std::filesystem::path& path) {
  write_atomically(path, kept_result_to_json(result).dump(1) + "\n");
}

}  // namespace kvcost
