#include "src/harness/config/recall_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/config/json_reader.h"
#include "src/harness/config/json_text.h"

namespace kvcost {
namespace {

using nlohmann::json;

constexpr const char* kKind = "recall";

json number_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

json mean_json(const CaseMean& mean) {
  return {{"mean", mean.mean}, {"low", number_json(mean.low)}, {"high", number_json(mean.high)}};
}

CaseMean mean_from(const json& object, const std::string& path) {
  JsonReader reader(object, path);
  return {reader.number("mean"), reader.optional_number("low"), reader.optional_number("high")};
}

json score_json(const RecallScore& score) {
  return {{"loss_bits", score.loss_bits},
          {"recalled", score.recalled},
          {"delta_bits", mean_json(score.delta_bits)},
          {"recalled_delta", mean_json(score.recalled_delta)}};
}

RecallScore score_from(const json& object, const std::string& path) {
  JsonReader reader(object, path);
  return {reader.number("loss_bits"), reader.number("recalled"),
          mean_from(reader.at("delta_bits"), path + ".delta_bits"),
          mean_from(reader.at("recalled_delta"), path + ".recalled_delta")};
}

json cell_json(const RecallCell& cell) {
  json by_depth = json::array();
  for (const RecallScore& score : cell.follow_up_by_depth) by_depth.push_back(score_json(score));
  return {{"decided", cell.decided},
          {"tokens_kept", cell.tokens_kept},
          {"prompt_tokens", cell.prompt_tokens},
          {"first", cell.first ? score_json(*cell.first) : json()},
          {"follow_up", score_json(cell.follow_up)},
          {"follow_up_by_depth", by_depth},
          {"seconds", cell.seconds},
          {"no_effect", cell.no_effect}};
}

RecallCell cell_from(const json& object, const std::string& path, size_t depths) {
  JsonReader reader(object, path);
  RecallCell cell;
  cell.decided = reader.text("decided");
  const auto known = [&](const char* name) { return cell.decided == name; };
  if (!cell.decided.empty() && std::none_of(std::begin(kDecisionPoints), std::end(kDecisionPoints), known)) {
    reader.refuse("decided", "before, first, both or nothing");
  }
  cell.tokens_kept = reader.number("tokens_kept");
  cell.prompt_tokens = reader.number("prompt_tokens");
  if (!reader.at("first").is_null()) cell.first = score_from(reader.at("first"), path + ".first");
  cell.follow_up = score_from(reader.at("follow_up"), path + ".follow_up");
  for (const json& score : reader.list("follow_up_by_depth", depths)) {
    cell.follow_up_by_depth.push_back(
        score_from(score, fmt::format("{}.follow_up_by_depth[{}]", path, cell.follow_up_by_depth.size())));
  }
  if (cell.follow_up_by_depth.size() != depths) {
    reader.refuse("follow_up_by_depth", fmt::format("{} entries, as \"depths\" has", depths));
  }
  cell.seconds = reader.number("seconds");
  cell.no_effect = reader.boolean("no_effect");
  return cell;
}

json row_json(const RecallRow& row) {
  json cells = json::array();
  for (const RecallCell& cell : row.cells) cells.push_back(cell_json(cell));
  return {{"name", row.name},
          {"section", row.section},
          {"config", row.config},
          {"looks_ahead", row.looks_ahead},
          {"cells", cells},
          {"follow_up_price_bits", row.follow_up_price_bits ? mean_json(*row.follow_up_price_bits) : json()}};
}

RecallRow row_from(const json& object, const std::string& path, size_t depths) {
  JsonReader reader(object, path);
  RecallRow row;
  row.name = reader.text("name");
  row.section = reader.text("section");
  row.config = reader.at("config");
  row.looks_ahead = reader.boolean("looks_ahead");
  for (const json& cell : reader.list("cells", std::size(kDecisionPoints))) {
    row.cells.push_back(cell_from(cell, fmt::format("{}.cells[{}]", path, row.cells.size()), depths));
  }
  if (row.cells.empty()) reader.refuse("cells", "one at least");
  const json& price = reader.at("follow_up_price_bits");
  if (!price.is_null()) row.follow_up_price_bits = mean_from(price, path + ".follow_up_price_bits");
  return row;
}

}  // namespace

RecallResult parse_recall_result(std::string_view text, const std::string& what) {
  json object = parse_bounded_json(text, what);
  JsonReader reader(object, what);
  check_kind(reader, object, what, kKind, RecallResult::kSchemaVersion);
  RecallResult result;
  static_cast<Provenance&>(result) = provenance_from(reader);
  result.cases = reader.integer("cases", 1);
  for (const json& depth : reader.list("depths", 20)) {
    if (!depth.is_number()) reader.refuse("depths", "a list of numbers");
    result.depths.push_back(depth.get<double>());
  }
  result.context_tokens = reader.number("context_tokens");
  result.answer_tokens = reader.number("answer_tokens");
  for (const json& row : reader.list("rows", 10001)) {
    result.rows.push_back(
        row_from(row, fmt::format("{}: rows[{}]", what, result.rows.size()), result.depths.size()));
  }
  if (result.rows.empty() || !result.rows[0].cells[0].first) {
    reader.refuse("rows", "the full cache's row first, with both questions");
  }
  return result;
}

RecallResult read_recall_result(const std::filesystem::path& path) {
  return parse_recall_result(read_text(path, kLargestResult), path.string());
}

void write_recall_result(const RecallResult& result, const std::filesystem::path& path) {
  nlohmann::ordered_json object;
  object["kind"] = kKind;
  object["schema_version"] = RecallResult::kSchemaVersion;
  add_provenance(object, result);
  object["cases"] = result.cases;
  object["depths"] = result.depths;
  object["context_tokens"] = result.context_tokens;
  object["answer_tokens"] = result.answer_tokens;
  object["rows"] = nlohmann::ordered_json::array();
  for (const RecallRow& row : result.rows) object["rows"].emplace_back(row_json(row));
  write_atomically(path, object.dump(1) + "\n");
}

}  // namespace kvcost
