#include "src/report/stream_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/printable.h"
#include "src/report/layout.h"
#include "src/report/stream_blocks.h"

namespace kvcost {
namespace {

using Align = TextGrid::Align;

constexpr size_t kMostColumns = 6;  ///< of blocks with their errors; more do not fit a line
constexpr double kMebibyte = 1 << 20;

/// "±.012": a place less than the usual form, for six in a line.
std::string error_of(double se_bits) {
  if (std::isnan(se_bits)) return "±   -";
  const std::string digits = fmt::format("{:.3f}", se_bits);
  return "±" + (digits.starts_with("0.") ? digits.substr(1) : digits);
}

std::string loss_of(const StreamMean& loss) {
  return fmt::format("{:.3f} {}", loss.mean, error_of(loss.standard_error));
}

std::string interval_of(const StreamDelta& delta) {
  return delta.low && delta.high ? fmt::format("{:+.3f}..{:+.3f}", *delta.low, *delta.high) : "-";
}

TextGrid grid_of(std::vector<std::string> header) {
  std::vector<Align> columns(header.size(), Align::right);
  columns[0] = Align::left;
  TextGrid grid(columns);
  grid.row(std::move(header));
  return grid;
}

/// The full cache, then the others under their sections.
void add_rows(TextGrid& grid, const StreamResult& result, auto&& cells_of) {
  std::string section;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    const StreamRow& row = result.rows[r];
    if (r > 0 && row.section != section) {
      section = row.section;
      grid.heading(section.empty() ? "other rows" : printable(section));
    }
    std::vector<std::string> cells = cells_of(row);
    cells.insert(cells.begin(), (r == 0 ? "" : "  ") + printable(row.name));
    grid.row(std::move(cells));
  }
}

TextGrid by_position(const StreamResult& result) {
  const std::vector<BlockSpan> spans = doubling_spans(result, kMostColumns);
  std::vector<std::string> header = {"loss by position"};
  for (const BlockSpan& span : spans) header.push_back(span_name(result, span) + " ");
  TextGrid grid = grid_of(std::move(header));
  add_rows(grid, result, [&](const StreamRow& row) {
    std::vector<std::string> cells;
    for (const BlockSpan& span : spans) {
      const auto loss = span_loss(result, row, span);
      cells.push_back(loss ? loss_of(loss->loss) + (loss->whole ? " " : "|") : "- ");
    }
    return cells;
  });
  return grid;
}

TextGrid summary(const StreamResult& result) {
  TextGrid grid = grid_of({"", "positions", "past " + short_position(result.trained_tokens),
                           "less full cache", "95% interval", "kept", "cache MiB", "peak MiB", "s/1k"});
  add_rows(grid, result, [&](const StreamRow& row) -> std::vector<std::string> {
    return {row.renumbered ? "renumbered" : "original",
            row.past_trained ? loss_of(*row.past_trained) : "-",
            row.against_full ? delta_cell(row.against_full->mean, row.against_full->standard_error) : "-",
            row.against_full ? interval_of(*row.against_full) : "-",
            with_commas(row.tokens_kept, 0),
            with_commas(static_cast<double>(row.cache_bytes) / kMebibyte, 1),
            with_commas(static_cast<double>(row.peak_bytes) / kMebibyte, 0),
            fmt::format("{:.2f}", 1024 * row.seconds / static_cast<double>(row.tokens))};
  });
  return grid;
}

bool has_renumbering(const StreamRow& row) { return row.renumbering.has_value(); }

TextGrid renumberings(const StreamResult& result) {
  TextGrid grid = grid_of({"past " + short_position(result.trained_tokens) + ", renumbered less original",
                           "(delta ± se)", "95% interval"});
  for (const StreamRow& row : result.rows) {
    if (!row.renumbering) continue;
    grid.row({fmt::format("  {} less {}", printable(row.name), printable(row.renumbering_of)),
              delta_cell(row.renumbering->mean, row.renumbering->standard_error),
              interval_of(*row.renumbering)});
  }
  return grid;
}

std::string heading(const StreamResult& result) {
  std::string text = fmt::format("{} tokens as one text", with_commas(result.tokens));
  if (result.documents > 1)
    text = fmt::format("{} tokens of {} documents, one after another as one text", with_commas(result.tokens),
                       with_commas(result.documents));
  return fmt::format("{}, {}: {}; trained on {} tokens", printable(result.model), printable(result.dtype),
                     text, with_commas(result.trained_tokens));
}

/// Rows that end before the text does, by where they end.
std::vector<std::string> endings(const StreamResult& result) {
  std::vector<std::string> lines;
  for (const StreamRow& row : result.rows) {
    if (row.tokens >= result.tokens) continue;
    lines.push_back(
        fmt::format("{} has no bound and ends at {} tokens", printable(row.name), with_commas(row.tokens)));
  }
  return lines;
}

std::vector<std::string> notes(const StreamResult& result) {
  std::vector<std::string> lines = {
      "loss: bits per token, ± standard error (tokens taken as independent); position: the token's, k = "
      "1,024"};
  bool part = false;
  for (const StreamRow& row : result.rows) {
    for (const BlockSpan& span : doubling_spans(result, kMostColumns)) {
      const auto loss = span_loss(result, row, span);
      part = part || (loss && !loss->whole);
    }
  }
  for (std::string& line : endings(result)) lines.push_back(std::move(line));
  if (part) lines.push_back("| the row ends inside the block");
  lines.push_back(
      fmt::format("less full cache: paired on the tokens before {}, where the full cache ends; beyond it "
                  "losses stand alone",
                  with_commas(result.rows[0].tokens)));
  lines.push_back(fmt::format("95% interval: over blocks of {} tokens", with_commas(result.block_tokens)));
  lines.push_back(
      "renumbered: a query and its keys are at 0, 1, 2... among the tokens kept; kept: tokens a query reads");
  lines.push_back(
      "cache: held at the end, fp32; peak: resident during the row, weights included; s/1k: seconds a 1,024 "
      "tokens");
  if (result.capabilities.size() > 1) {
    std::string kinds;
    for (const std::string& kind : result.capabilities)
      kinds += (kinds.empty() ? "" : ", ") + printable(kind);
    lines.push_back("rows were computed on processors of different kinds: " + kinds);
  }
  return lines;
}

std::string one_result(const StreamResult& result, bool text, bool titled) {
  std::vector<TextGrid> grids = {by_position(result), summary(result)};
  if (std::any_of(result.rows.begin(), result.rows.end(), has_renumbering)) {
    grids.push_back(renumberings(result));
  }
  std::string out;
  if (titled) {
    out += text ? "" : "### ";
    out += printable(result.name) + (text ? "\n" : "\n\n");
  }
  out += heading(result) + (text ? "\n" : "\n\n");
  for (size_t g = 0; g < grids.size(); ++g) {
    if (g > 0) out += "\n";
    out += text ? grids[g].text() : grids[g].markdown();
  }
  if (!text) out += "\n";
  for (const std::string& note : notes(result)) {
    if (text) {
      TextGrid line({Align::left});
      line.heading(note);
      out += line.text();
    } else {
      out += note + "  \n";
    }
  }
  return out;
}

}  // namespace

std::string stream_table(std::span<const StreamResult> results, TableFormat format) {
  if (format == TableFormat::json || format == TableFormat::csv) {
    auto list = nlohmann::ordered_json::array();
    for (const StreamResult& result : results) list.push_back(stream_result_json(result));
    return format == TableFormat::csv ? results_csv(list) : list.dump(2) + "\n";
  }
  std::string out;
  for (const StreamResult& result : results) {
    if (!out.empty()) out += "\n";
    out += one_result(result, format == TableFormat::text, results.size() > 1);
  }
  return out;
}

}  // namespace kvcost
