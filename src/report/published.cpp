#include "src/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "src/base/file.h"
#include "src/base/printable.h"
#include "src/harness/config/json_text.h"
#include "src/report/fields.h"
#include "src/report/layout.h"

namespace kvcost {
namespace {

using Align = TextGrid::Align;
using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMost = int64_t{1} << 40;

std::string index(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

/// Words joined by single spaces: how names are compared.
std::string squeezed(const std::string& name) {
  std::istringstream words(name);
  std::string out, word;
  while (words >> word) out += (out.empty() ? "" : " ") + word;
  return out;
}

struct Pair {
  const PublishedRow* published;
  const RowResult* measured;
};

struct Matched {
  std::vector<Pair> pairs;  ///< in the article's order
  std::vector<std::string> only_published, only_measured;
};

Matched match(const Published& published, const ResultFile& result) {
  Matched matched;
  std::vector<bool> used(result.rows.size(), false);
  if (!used.empty()) used[0] = true;
  for (const PublishedRow& row : published.rows) {
    size_t at = 0;
    while (at < result.rows.size() && (used[at] || squeezed(result.rows[at].name) != squeezed(row.name)))
      ++at;
    if (at < result.rows.size()) {
      used[at] = true;
      matched.pairs.push_back({&row, &result.rows[at]});
    } else {
      matched.only_published.push_back(row.name);
    }
  }
  for (size_t i = 0; i < result.rows.size(); ++i) {
    if (!used[i]) matched.only_measured.push_back(result.rows[i].name);
  }
  return matched;
}

std::string bits(double value) { return fmt::format("{:.3f}", value); }
std::string change(double value) { return fmt::format("{:+.3f}", value); }

std::string key_comparison(const Published& published, const std::vector<KeyStatistics>& measured,
                           TableFormat format) {
  TextGrid grid({Align::left, Align::right, Align::right, Align::right, Align::right});
  grid.row({"keys before RoPE", "largest bias", "span", "without the bias", "variation"});
  bool any = false;
  for (const KeyStatistics& theirs : published.key_statistics) {
    for (const KeyStatistics& ours : measured) {
      if (ours.layer != theirs.layer) continue;
      auto row = [&](const char* whose, const KeyStatistics& s) {
        grid.row({fmt::format("  layer {}, {}", s.layer, whose), fmt::format("{:.1f}", s.largest_bias),
                  fmt::format("{:.1f}", s.span), fmt::format("{:.1f}", s.span_without_bias),
                  fmt::format("{:.2f}", s.variation)});
      };
      row("published", theirs);
      row("measured", ours);
      any = true;
    }
  }
  if (!any) return {};
  return fmt::format("\n{}", format == TableFormat::text ? grid.text() : grid.markdown());
}

std::string list_of(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : "; ") + printable(name);
  return all;
}

std::string for_people(const Published& published, const ResultFile& result, const Matched& matched,
                       const std::vector<KeyStatistics>& keys, TableFormat format) {
  bool text = format == TableFormat::text;
  std::vector<std::string> lines = {
      fmt::format("published: {}, {} windows of {} tokens, the last {} scored ({})",
                  printable(published.model), published.windows, with_commas(published.length),
                  with_commas(published.scored), printable(published.source)),
      fmt::format("measured: {}, {}, {} windows of {} tokens, the last {} scored ({})",
                  printable(result.model), printable(result.dtype), result.windows,
                  with_commas(result.length), with_commas(result.scored), printable(result.name))};
  TextGrid grid(
      {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right});
  grid.row({"", "published", "", "measured", "", "loss", "delta"});
  if (!result.rows.empty()) {
    double loss = result.rows[0].loss_bits;
    grid.row({"full cache", bits(published.full_loss_bits), "", bits(loss), "",
              change(loss - published.full_loss_bits), ""});
  }
  std::string section;
  for (const Pair& pair : matched.pairs) {
    if (pair.published->section != section) {
      section = pair.published->section;
      grid.heading(printable(section));
    }
    const PublishedRow& theirs = *pair.published;
    const RowResult& ours = *pair.measured;
    grid.row({"  " + printable(theirs.name), bits(theirs.loss_bits),
              delta_cell(theirs.delta_bits, theirs.delta_se_bits), bits(ours.loss_bits),
              ours.no_effect ? "(no effect)" : delta_cell(ours.delta_bits, ours.delta_se_bits),
              change(ours.loss_bits - theirs.loss_bits), change(ours.delta_bits - theirs.delta_bits)});
  }
  std::vector<std::string> ends = {"the last two columns are measured less published, in bits per token"};
  if (!matched.only_published.empty()) ends.push_back("published only: " + list_of(matched.only_published));
  if (!matched.only_measured.empty()) ends.push_back("measured only: " + list_of(matched.only_measured));

  auto paragraph = [&](const std::vector<std::string>& all) {
    std::string out;
    for (const std::string& line : all) {
      TextGrid one({Align::left});
      one.heading(line);
      out += text ? one.text() : line + "  \n";
    }
    return out;
  };
  std::string between = text ? "" : "\n";
  return paragraph(lines) + between + (text ? grid.text() : grid.markdown()) + between + paragraph(ends) +
         key_comparison(published, keys, format);
}

std::string as_csv(const Published& published, const ResultFile& result, const Matched& matched) {
  std::string out =
      "section,name,published_loss_bits,published_delta_bits,published_delta_se_bits,measured_loss_bits,"
      "measured_delta_bits,measured_delta_se_bits,loss_difference_bits,delta_difference_bits\n";
  if (!result.rows.empty()) {
    double loss = result.rows[0].loss_bits;
    out += fmt::format(",full cache,{},0,0,{},0,0,{},0\n", published.full_loss_bits, loss,
                       loss - published.full_loss_bits);
  }
  for (const Pair& pair : matched.pairs) {
    const PublishedRow& theirs = *pair.published;
    const RowResult& ours = *pair.measured;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", csv_field(theirs.section), csv_field(theirs.name),
                       theirs.loss_bits, theirs.delta_bits, theirs.delta_se_bits, ours.loss_bits,
                       ours.delta_bits, ours.delta_se_bits, ours.loss_bits - theirs.loss_bits,
                       ours.delta_bits - theirs.delta_bits);
  }
  for (const PublishedRow& row : published.rows) {
    if (std::count(matched.only_published.begin(), matched.only_published.end(), row.name) == 0) continue;
    out += fmt::format("{},{},{},{},{},,,,,\n", csv_field(row.section), csv_field(row.name), row.loss_bits,
                       row.delta_bits, row.delta_se_bits);
  }
  for (const RowResult& row : result.rows) {
    if (std::count(matched.only_measured.begin(), matched.only_measured.end(), row.name) == 0) continue;
    out += fmt::format("{},{},,,,{},{},{},,\n", csv_field(row.section), csv_field(row.name), row.loss_bits,
                       row.delta_bits, row.delta_se_bits);
  }
  return out;
}

std::string as_json(const Published& published, const ResultFile& result, const Matched& matched) {
  OrderedJson rows = OrderedJson::array();
  for (const Pair& pair : matched.pairs) {
    const PublishedRow& theirs = *pair.published;
    const RowResult& ours = *pair.measured;
    rows.push_back({{"section", theirs.section},
                    {"name", theirs.name},
                    {"published",
                     {{"loss_bits", theirs.loss_bits},
                      {"delta_bits", theirs.delta_bits},
                      {"delta_se_bits", theirs.delta_se_bits}}},
                    {"measured",
                     {{"loss_bits", ours.loss_bits},
                      {"delta_bits", ours.delta_bits},
                      {"delta_se_bits", ours.delta_se_bits}}},
                    {"loss_difference_bits", ours.loss_bits - theirs.loss_bits},
                    {"delta_difference_bits", ours.delta_bits - theirs.delta_bits}});
  }
  OrderedJson whole = {{"source", published.source},
                       {"published_model", published.model},
                       {"measured_model", result.model},
                       {"published_full_loss_bits", published.full_loss_bits},
                       {"measured_full_loss_bits",
                        result.rows.empty() ? OrderedJson() : OrderedJson(result.rows[0].loss_bits)},
                       {"rows", rows},
                       {"only_published", matched.only_published},
                       {"only_measured", matched.only_measured}};
  return whole.dump(2) + "\n";
}

}  // namespace

Published read_published(const std::filesystem::path& path) {
  nlohmann::json json = parse_bounded_json(read_text(path, size_t{1} << 24), path.string());
  Published published;
  Fields file(json, path.string());
  published.source = file.text("source");
  Fields losses = file.object("losses");
  published.model = losses.text("model");
  published.windows = losses.integer("windows", 1, kMost);
  published.length = losses.integer("length", 1, kMost);
  published.scored = losses.integer("scored", 1, kMost);
  published.full_loss_bits = losses.number("full_loss_bits");
  const nlohmann::json& rows = losses.list("rows");
  for (size_t i = 0; i < rows.size(); ++i) {
    Fields row(rows[i], index(losses.path_of("rows"), i));
    published.rows.push_back({row.text("section"), row.text("name"), row.number("loss_bits"),
                              row.number("delta_bits"), row.number("delta_se_bits")});
  }
  if (file.has("key_statistics")) {
    Fields keys = file.object("key_statistics");
    published.key_model = keys.text("model");
    published.key_channels = keys.integer("channels", 1, kMost);
    published.key_statistics = key_statistics_from_json(keys.list("rows"), keys.path_of("rows"));
  }
  if (file.has("budget")) {
    Fields budget = file.object("budget");
    const nlohmann::json& lines = budget.list("rows");
    for (size_t i = 0; i < lines.size(); ++i) {
      Fields row(lines[i], index(budget.path_of("rows"), i));
      published.budget.push_back({row.text("name"), row.integer("bytes_per_token", 1, kMost),
                                  row.integer("kv_heads", 1, kMost), row.number("sequence_gib"),
                                  row.number("percent_of_baseline"), row.number("bits_per_number"),
                                  row.number("share_of_tokens")});
    }
  }
  return published;
}

std::string compare(const Published& published, const ResultFile& result, TableFormat format) {
  Matched matched = match(published, result);
  if (format == TableFormat::csv) return as_csv(published, result, matched);
  if (format == TableFormat::json) return as_json(published, result, matched);
  std::vector<KeyStatistics> keys =
      key_statistics_from_json(result.key_statistics, result.name + ": key_statistics");
  return for_people(published, result, matched, keys, format);
}

}  // namespace kvcost
