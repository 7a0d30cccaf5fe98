#include "src/harness/config/stream_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/config/json_reader.h"
#include "src/harness/config/json_text.h"

namespace kvcost {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr size_t kMostBlocks = size_t{1} << 20;
constexpr const char* kKind = "stream";

Ordered number_json(const std::optional<double>& value) { return value ? Ordered(*value) : Ordered(); }

Ordered mean_json(const std::optional<StreamMean>& mean) {
  if (!mean) return nullptr;
  return {{"loss_bits", mean->mean}, {"se_bits", mean->standard_error}};
}

Ordered delta_json(const std::optional<StreamDelta>& delta) {
  if (!delta) return nullptr;
  return {{"delta_bits", delta->mean},
          {"se_bits", delta->standard_error},
          {"low_bits", number_json(delta->low)},
          {"high_bits", number_json(delta->high)}};
}

std::optional<StreamMean> mean_from(const JsonReader& reader, const char* name, const std::string& path) {
  if (reader.at(name).is_null()) return std::nullopt;
  JsonReader inner(reader.at(name), path + "." + name);
  return StreamMean{inner.number("loss_bits"), inner.number("se_bits")};
}

std::optional<StreamDelta> delta_from(const JsonReader& reader, const char* name, const std::string& path) {
  if (reader.at(name).is_null()) return std::nullopt;
  JsonReader inner(reader.at(name), path + "." + name);
  return StreamDelta{{inner.number("delta_bits"), inner.number("se_bits")},
                     inner.optional_number("low_bits"),
                     inner.optional_number("high_bits")};
}

int64_t tokens_from(const JsonReader& reader, const char* name, int64_t least, int64_t most) {
  int64_t tokens = reader.integer(name, least);
  if (tokens > most) reader.refuse(name, fmt::format("at most {}", most));
  return tokens;
}

std::vector<double> numbers_from(const JsonReader& reader, const char* name, size_t count) {
  std::vector<double> numbers;
  for (const json& entry : reader.list(name, kMostBlocks)) {
    if (!entry.is_number() && !entry.is_null()) reader.refuse(name, "a list of numbers or nulls");
    numbers.push_back(entry.is_null() ? std::numeric_limits<double>::quiet_NaN() : entry.get<double>());
  }
  if (numbers.size() != count) reader.refuse(name, fmt::format("{} entries, one a block", count));
  return numbers;
}

Ordered row_json(const StreamRow& row) {
  return {{"name", row.name},
          {"section", row.section},
          {"config", row.config},
          {"renumbered", row.renumbered},
          {"tokens", row.tokens},
          {"chunk", row.chunk},
          {"tokens_kept", row.tokens_kept},
          {"cache_bytes", row.cache_bytes},
          {"peak_bytes", row.peak_bytes},
          {"seconds", row.seconds},
          {"past_trained", mean_json(row.past_trained)},
          {"against_full", delta_json(row.against_full)},
          {"renumbering_of", row.renumbering_of},
          {"renumbering", delta_json(row.renumbering)},
          {"block_loss_bits", row.block_loss_bits},
          {"block_sd_bits", row.block_sd_bits}};
}

StreamRow row_from(const json& object, const std::string& path, const StreamResult& result) {
  JsonReader reader(object, path);
  StreamRow row;
  row.name = reader.text("name");
  row.section = reader.text("section");
  row.config = reader.at("config");
  row.renumbered = reader.boolean("renumbered");
  row.tokens = tokens_from(reader, "tokens", 2, result.tokens);
  row.chunk = reader.integer("chunk", 1);
  row.tokens_kept = reader.number("tokens_kept");
  row.cache_bytes = reader.integer("cache_bytes", 0);
  row.peak_bytes = reader.integer("peak_bytes", 0);
  row.seconds = reader.number("seconds");
  row.past_trained = mean_from(reader, "past_trained", path);
  row.against_full = delta_from(reader, "against_full", path);
  row.renumbering_of = reader.text("renumbering_of");
  row.renumbering = delta_from(reader, "renumbering", path);
  const auto blocks = static_cast<size_t>((row.tokens - 1) / result.block_tokens + 1);
  row.block_loss_bits = numbers_from(reader, "block_loss_bits", blocks);
  row.block_sd_bits = numbers_from(reader, "block_sd_bits", blocks);
  return row;
}

}  // namespace

int64_t StreamResult::scored(const StreamRow& row, size_t block) const {
  const int64_t first = static_cast<int64_t>(block) * block_tokens;
  return std::min(first + block_tokens, row.tokens) - std::max<int64_t>(first, 1);
}

StreamResult parse_stream_result(std::string_view text, const std::string& what) {
  const json object = parse_bounded_json(text, what);
  JsonReader reader(object, what);
  check_kind(reader, object, what, kKind, StreamResult::kSchemaVersion);
  StreamResult result;
  static_cast<Provenance&>(result) = provenance_from(reader);
  if (!reader.at("bos").is_null()) result.bos = reader.integer("bos", 0);
  result.documents = reader.integer("documents", 1);
  result.tokens = tokens_from(reader, "tokens", 2, kMostTokens);
  result.trained_tokens = tokens_from(reader, "trained_tokens", 1, kMostTokens);
  result.full_limit = tokens_from(reader, "full_limit", 2, kMostTokens);
  result.block_tokens = tokens_from(reader, "block_tokens", 2, kMostTokens);
  for (const json& row : reader.list("rows", 10001)) {
    result.rows.push_back(row_from(row, fmt::format("{}: rows[{}]", what, result.rows.size()), result));
  }
  if (result.rows.empty()) reader.refuse("rows", "the full cache's row at least");
  return result;
}

StreamResult read_stream_result(const std::filesystem::path& path) {
  return parse_stream_result(read_text(path, kLargestResult), path.string());
}

Ordered stream_result_json(const StreamResult& result) {
  Ordered object;
  object["kind"] = kKind;
  object["schema_version"] = StreamResult::kSchemaVersion;
  add_provenance(object, result);
  object["bos"] = result.bos ? Ordered(*result.bos) : Ordered();
  object["documents"] = result.documents;
  object["tokens"] = result.tokens;
  object["trained_tokens"] = result.trained_tokens;
  object["full_limit"] = result.full_limit;
  object["block_tokens"] = result.block_tokens;
  object["rows"] = Ordered::array();
  for (const StreamRow& row : result.rows) object["rows"].emplace_back(row_json(row));
  return object;
}

void write_stream_result(const StreamResult& result, const std::filesystem::path& path) {
  write_atomically(path, stream_result_json(result).dump(1) + "\n");
}

}  // namespace kvcost
