#include "src/report/kept_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "src/base/printable.h"
#include "src/report/layout.h"

namespace kvcost {
namespace {

using Align = TextGrid::Align;

constexpr size_t kColumns = 10;  ///< of numbers, that fit beside a name

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string numbered(const KeptResult& result, size_t row) {
  return fmt::format("{} {}{}", row + 1, printable(result.rows[row].name),
                     result.rows[row].looks_ahead ? " *" : "");
}

TextGrid rows_grid(const KeptResult& result) {
  TextGrid grid({Align::left, Align::right, Align::right, Align::right});
  grid.row({"", "tokens kept", "attention kept", "ties"});
  std::string section;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    const KeptRow& row = result.rows[r];
    if (row.section != section) {
      section = row.section;
      grid.heading(section.empty() ? "other rows" : printable(section));
    }
    grid.row({"  " + numbered(result, r), with_commas(row.tokens_kept, 1), percent(row.attention.mean),
              row.evictions == 0 ? "-"
                                 : fmt::format("{:.2f}%", 100 * static_cast<double>(row.ties) /
                                                              static_cast<double>(row.evictions))});
  }
  return grid;
}

/// A wide grid in several, each with some of the columns.
std::string in_columns(const std::vector<std::string>& names, const std::vector<std::string>& header,
                       const std::function<std::string(size_t, size_t)>& cell, bool text) {
  std::string out;
  const size_t most = text ? kColumns : header.size();
  for (size_t first = 0; first < header.size(); first += most) {
    const size_t count = std::min(most, header.size() - first);
    std::vector<Align> columns(1 + count, Align::right);
    columns[0] = Align::left;
    TextGrid grid(columns);
    std::vector<std::string> cells = {""};
    cells.insert(cells.end(), header.begin() + static_cast<int64_t>(first),
                 header.begin() + static_cast<int64_t>(first + count));
    grid.row(cells);
    for (size_t n = 0; n < names.size(); ++n) {
      cells = {"  " + names[n]};
      for (size_t c = first; c < first + count; ++c) cells.push_back(cell(n, c));
      grid.row(cells);
    }
    if (first > 0) out += "\n";
    out += text ? grid.text() : grid.markdown();
  }
  return out;
}

std::string titled(const std::string& title, const std::string& grids, bool text) {
  return "\n" + title + (text ? "\n" : "\n\n") + grids;
}

std::string matrix(const KeptResult& result, bool text) {
  std::vector<std::string> names, header;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    names.push_back(numbered(result, r));
    header.push_back(fmt::format("{}", r + 1));
  }
  return in_columns(
      names, header,
      [&](size_t a, size_t b) { return a == b ? "1" : fmt::format("{:.2f}", result.overlap(a, b).mean); },
      text);
}

std::string layers(const KeptResult& result, bool text) {
  std::vector<std::string> header, names, pairs;
  for (int64_t l = 0; l < result.layers; ++l) header.push_back(fmt::format("{}", l));
  for (size_t r = 0; r < result.rows.size(); ++r) names.push_back(numbered(result, r));
  for (const KeptPair& pair : result.pairs) pairs.push_back(fmt::format("{} and {}", pair.a + 1, pair.b + 1));
  std::string out =
      titled("attention kept, by layer",
             in_columns(
                 names, header,
                 [&](size_t r, size_t l) { return percent(result.rows[r].attention.layers[l]); }, text),
             text);
  if (pairs.empty()) return out;
  return out + titled("Jaccard index of two rows' kept sets, by layer",
                      in_columns(
                          pairs, header,
                          [&](size_t p, size_t l) {
                            return fmt::format("{:.2f}", result.pairs[p].overlap.layers[l]);
                          },
                          text),
                      text);
}

std::string notes(const KeptResult& result, bool text) {
  std::vector<std::string> lines = {
      fmt::format("{}, {}; {} window{} of {} tokens, the queries that predict the last {}; means over heads, "
                  "layers and queries",
                  printable(result.model), printable(result.dtype), with_commas(result.windows),
                  result.windows == 1 ? "" : "s", with_commas(result.length), with_commas(result.scored)),
      "tokens kept: what a query may see, itself included; attention kept: of the full cache's weights, the "
      "share on these",
      "ties: of the evictions by score, those that age decided between equals; -: no scores"};
  if (std::any_of(result.rows.begin(), result.rows.end(),
                  [](const KeptRow& row) { return row.looks_ahead; })) {
    lines.push_back("* looks ahead: it uses later tokens, as no cache being filled could");
  }
  std::string out;
  for (std::string& line : lines) {
    if (text) {
      TextGrid grid({Align::left});
      grid.heading(line);
      out += grid.text();
    } else {
      out += (line.starts_with("*") ? "\\" : "") + line + "  \n";
    }
  }
  return out;
}

std::string one(const KeptResult& result, const KeptTableOptions& options) {
  const bool text = options.format == TableFormat::text;
  const TextGrid rows = rows_grid(result);
  std::string out = text ? rows.text() : rows.markdown() + "\n";
  out += notes(result, text);
  if (result.rows.size() > 1) {
    out += titled("Jaccard index of two rows' kept sets: tokens in both over tokens in either",
                  matrix(result, text), text);
  }
  return options.layers ? out + layers(result, text) : out;
}

std::string csv(std::span<const KeptResult> results) {
  std::string out = "result,row,other,measure,layer,value\n";
  for (const KeptResult& result : results) {
    auto line = [&](const KeptRow& row, const KeptRow* other, const char* measure, const std::string& layer,
                    double value) {
      out += fmt::format("{},{},{},{},{},{}\n", csv_field(result.name), csv_field(row.name),
                         other == nullptr ? "" : csv_field(other->name), measure, layer, value);
    };
    auto lines = [&](const KeptRow& row, const KeptRow* other, const char* measure, const ByLayer& values) {
      line(row, other, measure, "", values.mean);
      for (size_t l = 0; l < values.layers.size(); ++l) {
        line(row, other, measure, fmt::format("{}", l), values.layers[l]);
      }
    };
    for (const KeptRow& row : result.rows) {
      line(row, nullptr, "tokens_kept", "", row.tokens_kept);
      line(row, nullptr, "evictions_by_score", "", static_cast<double>(row.evictions));
      line(row, nullptr, "ties", "", static_cast<double>(row.ties));
      lines(row, nullptr, "attention_kept", row.attention);
    }
    for (const KeptPair& pair : result.pairs) {
      lines(result.rows[pair.a], &result.rows[pair.b], "jaccard", pair.overlap);
    }
  }
  return out;
}

}  // namespace

std::string kept_tables(std::span<const KeptResult> results, const KeptTableOptions& options) {
  if (options.format == TableFormat::csv) return csv(results);
  if (options.format == TableFormat::json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const KeptResult& result : results) list.push_back(kept_result_to_json(result));
    return list.dump(2) + "\n";
  }
  std::string out;
  for (const KeptResult& result : results) {
    if (!out.empty()) out += "\n";
    if (results.size() > 1) {
      const bool text = options.format == TableFormat::text;
      out += (text ? "" : "### ") + printable(result.name) + (text ? "\n" : "\n\n");
    }
    out += one(result, options);
  }
  return out;
}

}  // namespace kvcost
