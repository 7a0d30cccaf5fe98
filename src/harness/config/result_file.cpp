#include "src/harness/config/result_file.h"

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/config/json_reader.h"
#include "src/harness/config/json_text.h"

namespace kvcost {
namespace {

using nlohmann::json;

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

json row_json(const RowResult& row) {
  return {{"name", row.name},
          {"section", row.section},
          {"config", row.config},
          {"loss_bits", row.loss_bits},
          {"delta_bits", row.delta_bits},
          {"delta_se_bits", row.delta_se_bits},
          {"delta_low_bits", optional_json(row.delta_low_bits)},
          {"delta_high_bits", optional_json(row.delta_high_bits)},
          {"kl_bits", row.kl_bits},
          {"top1_agreement", row.top1_agreement},
          {"true_probability_change", row.true_probability_change},
          {"tokens_kept", row.tokens_kept},
          {"stored_bytes_per_token", row.stored_bytes_per_token},
          {"effective_bits", row.effective_bits},
          {"spread_bits", optional_json(row.spread_bits)},
          {"spread_windows", row.spread_windows},
          {"spread_repeats", row.spread_repeats},
          {"seconds", row.seconds},
          {"no_effect", row.no_effect},
          {"looks_ahead", row.looks_ahead}};
}

RowResult row_from(const json& object, const std::string& path) {
  JsonReader reader(object, path);
  RowResult row;
  row.name = reader.text("name");
  row.section = reader.text("section");
  row.config = reader.at("config");
  row.loss_bits = reader.number("loss_bits");
  row.delta_bits = reader.number("delta_bits");
  row.delta_se_bits = reader.number("delta_se_bits");
  row.delta_low_bits = reader.optional_number("delta_low_bits");
  row.delta_high_bits = reader.optional_number("delta_high_bits");
  row.kl_bits = reader.number("kl_bits");
  row.top1_agreement = reader.number("top1_agreement");
  row.true_probability_change = reader.number("true_probability_change");
  row.tokens_kept = reader.number("tokens_kept");
  row.stored_bytes_per_token = reader.number("stored_bytes_per_token");
  row.effective_bits = reader.number("effective_bits");
  row.spread_bits = reader.optional_number("spread_bits");
  row.spread_windows = reader.integer("spread_windows", 0);
  row.spread_repeats = reader.integer("spread_repeats", 0);
  row.seconds = reader.number("seconds");
  row.no_effect = reader.boolean("no_effect");
  row.looks_ahead = reader.boolean("looks_ahead");
  return row;
}

}  // namespace

ResultFile parse_result(std::string_view text, const std::string& what) {
  json object = parse_bounded_json(text, what);
  JsonReader reader(object, what);
  int64_t version = reader.integer("schema_version", 0);
  if (version != ResultFile::kSchemaVersion) {
    throw InputError(
        fmt::format("{}.schema_version: found {}, expected {}", what, version, ResultFile::kSchemaVersion));
  }
  ResultFile result;
  static_cast<Provenance&>(result) = provenance_from(reader);
  result.capability = reader.text("capability");
  if (object.contains("bos") && !object["bos"].is_null()) result.bos = reader.integer("bos", 0);
  result.windows = reader.integer("windows", 1);
  result.length = reader.integer("length", 2);
  result.scored = reader.integer("scored", 1);
  size_t i = 0;
  for (const json& row : reader.list("rows", 10001)) {
    result.rows.push_back(row_from(row, fmt::format("{}: rows[{}]", what, i++)));
  }
  if (result.rows.empty()) reader.refuse("rows", "the full cache's row at least");
  if (object.contains("key_statistics")) result.key_statistics = object["key_statistics"];
  return result;
}

ResultFile read_result(const std::filesystem::path& path) {
  return parse_result(read_text(path, kLargestResult), path.string());
}

void write_result(const ResultFile& result, const std::filesystem::path& path) {
  nlohmann::ordered_json object;
  object["schema_version"] = ResultFile::kSchemaVersion;
  add_provenance(object, result);
  object["capability"] = result.capability;
  object["bos"] = result.bos ? json(*result.bos) : json();
  object["windows"] = result.windows;
  object["length"] = result.length;
  object["scored"] = result.scored;
  object["rows"] = nlohmann::ordered_json::array();
  for (const RowResult& row : result.rows) object["rows"].emplace_back(row_json(row));
  if (!result.key_statistics.is_null()) object["key_statistics"] = result.key_statistics;
  write_atomically(path, object.dump(1) + "\n");
}

}  // namespace kvcost
