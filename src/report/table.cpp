#include "src/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/report/by_position.h"
#include "src/report/gap.h"
#include "src/report/layout.h"

namespace kvcost {
namespace {

using Align = TextGrid::Align;
using OrderedJson = nlohmann::ordered_json;

std::string bits(double value) { return fmt::format("{:.3f}", value); }

std::string plural(int64_t count, const std::string& noun) {
  return with_commas(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string delta_of(const RowResult& row) {
  return row.no_effect ? "(no effect)" : delta_cell(row.delta_bits, row.delta_se_bits);
}

std::string interval_of(const RowResult& row) {
  if (!row.delta_low_bits || !row.delta_high_bits) return "-";
  return fmt::format("{:+.3f}..{:+.3f}", *row.delta_low_bits, *row.delta_high_bits);
}

/// Rows after the full cache's.
std::span<const RowResult> compressed(const ResultFile& result) {
  return std::span(result.rows).subspan(std::min<size_t>(1, result.rows.size()));
}

std::string full_line(const ResultFile& result) {
  if (result.rows.empty()) return "no rows";
  return fmt::format("full cache: {} bits per token, {}", bits(result.rows[0].loss_bits),
                     plural(result.windows, "window"));
}

std::string model_line(const ResultFile& result) {
  std::string line =
      fmt::format("{}, {}; windows of {}, the last {} scored", printable(result.model),
                  printable(result.dtype), plural(result.length, "token"), with_commas(result.scored));
  if (!result.rows.empty()) {
    line +=
        fmt::format("; full cache {} bytes per token", with_commas(result.rows[0].stored_bytes_per_token, 0));
  }
  return line;
}

bool any_row(const ResultFile& result, auto&& test) {
  return std::any_of(result.rows.begin(), result.rows.end(), test);
}

bool looks_ahead(const RowResult& row) { return row.looks_ahead; }
bool has_spread(const RowResult& row) { return row.spread_bits.has_value(); }

std::string capability_note(const ResultFile& result) {
  if (result.capabilities.size() < 2) return {};
  std::string kinds;
  for (const std::string& kind : result.capabilities) kinds += (kinds.empty() ? "" : ", ") + printable(kind);
  return "windows were computed on processors of different kinds (" + kinds +
         "): rounded rows may differ by their spread";
}

std::string spread_note(const ResultFile& result) {
  int64_t windows = 0, repeats = 0;
  bool one_kind = true;
  for (const RowResult& row : result.rows) {
    if (!row.spread_bits) continue;
    if (repeats > 0 && (row.spread_windows != windows || row.spread_repeats != repeats)) one_kind = false;
    windows = row.spread_windows;
    repeats = row.spread_repeats;
  }
  std::string note = "spread: sd of the loss when the input is perturbed";
  if (one_kind) {
    note += fmt::format(" ({} over {})", plural(repeats, "repeat"), plural(windows, "window"));
  }
  return note;
}

std::vector<std::string> notes(const ResultFile& result) {
  std::vector<std::string> lines;
  lines.push_back(model_line(result));
  lines.push_back("(delta ± standard error, tokens taken as independent); 95% interval: over windows");
  lines.push_back("B/token: stored bytes per token of context; bits: per stored number, metadata included");
  if (any_row(result, has_spread)) lines.push_back(spread_note(result));
  if (any_row(result, looks_ahead)) {
    lines.push_back("* looks ahead: it uses later tokens, as no cache being filled could");
  }
  if (std::string note = capability_note(result); !note.empty()) lines.push_back(note);
  return lines;
}

/// Adds the rows with their sections as headings.
void add_rows(TextGrid& grid, const ResultFile& result, auto&& cells_of) {
  std::string section;
  for (const RowResult& row : compressed(result)) {
    if (row.section != section) {
      section = row.section;
      grid.heading(section.empty() ? "other rows" : printable(section));
    }
    std::vector<std::string> cells = cells_of(row);
    cells.insert(cells.begin(), "  " + printable(row.name));
    grid.row(cells);
  }
}

TextGrid main_grid(const ResultFile& result, bool with_full_row) {
  bool spread = any_row(result, has_spread), ahead = any_row(result, looks_ahead);
  std::vector<Align> columns(spread ? 7 : 6, Align::right);
  columns[0] = Align::left;
  TextGrid grid(columns);
  std::vector<std::string> header = {
      "", "loss", ahead ? "(delta ± se) " : "(delta ± se)", "95% interval", "B/token", "bits"};
  if (spread) header.push_back("spread");
  grid.row(header);
  auto cells_of = [&](const RowResult& row) {
    std::vector<std::string> cells = {
        bits(row.loss_bits), delta_of(row) + (row.looks_ahead ? "*" : (ahead ? " " : "")), interval_of(row),
        with_commas(row.stored_bytes_per_token, 0), fmt::format("{:.2f}", row.effective_bits)};
    if (spread) cells.push_back(row.spread_bits ? bits(*row.spread_bits) : "-");
    return cells;
  };
  if (with_full_row && !result.rows.empty()) {
    std::vector<std::string> cells = cells_of(result.rows[0]);
    cells[1] = cells[2] = "";
    cells.insert(cells.begin(), "full cache");
    grid.row(cells);
  }
  add_rows(grid, result, cells_of);
  return grid;
}

TextGrid measures_grid(const ResultFile& result) {
  std::vector<Align> columns(6, Align::right);
  columns[0] = Align::left;
  TextGrid grid(columns);
  grid.row({"", "KL bits", "top-1 same", "p(true) change", "tokens kept", "seconds"});
  auto cells_of = [](const RowResult& row) -> std::vector<std::string> {
    return {fmt::format("{:.4f}", row.kl_bits), fmt::format("{:.2f}%", 100 * row.top1_agreement),
            fmt::format("{:+.4f}", row.true_probability_change), with_commas(row.tokens_kept, 1),
            fmt::format("{:.2f}", row.seconds)};
  };
  if (!result.rows.empty()) {
    std::vector<std::string> cells = cells_of(result.rows[0]);
    cells.insert(cells.begin(), "full cache");
    grid.row(cells);
  }
  add_rows(grid, result, cells_of);
  return grid;
}

/// Grids below the main one, each with a line that says what it is.
std::string extras(const ResultFile& result, const TableOptions& options, const Losses* losses) {
  bool text = options.format == TableFormat::text;
  std::string out;
  auto add = [&](const std::string& title, const TextGrid& grid) {
    out +=
        "\n" + (title.empty() ? "" : title + (text ? "\n" : "\n\n")) + (text ? grid.text() : grid.markdown());
  };
  if (std::vector<Gap> gaps = gaps_closed(result, losses); !gaps.empty()) add("", gap_grid(result, gaps));
  if (options.position_blocks > 0 && losses != nullptr) {
    std::string title =
        "loss by position in the window: the full cache's, and what each row adds (bits per token)";
    for (const TextGrid& grid :
         position_grids(result, *losses, position_blocks(result, options.position_blocks))) {
      add(title, grid);
      title.clear();
    }
  }
  if (options.measures) add("", measures_grid(result));
  return out;
}

std::string one_result(const ResultFile& result, const TableOptions& options, const Losses* losses,
                       bool titled) {
  bool text = options.format == TableFormat::text;
  std::string out;
  if (titled) out += (text ? "" : "### ") + printable(result.name) + "\n" + (text ? "" : "\n");
  if (text) {
    out += full_line(result) + "\n" + main_grid(result, false).text();
    for (const std::string& note : notes(result)) {
      TextGrid line({Align::left});
      line.heading(note);
      out += line.text();
    }
    return out + extras(result, options, losses);
  }
  out += full_line(result) + "\n\n" + main_grid(result, true).markdown() + "\n";
  for (std::string note : notes(result)) {
    if (note.starts_with("*")) note.insert(0, "\\");
    out += note + "  \n";
  }
  return out + extras(result, options, losses);
}

/// Losses of several results in one grid; a row's place is where the first result that has it puts it.
std::string beside(std::span<const ResultFile> results, TableFormat format) {
  std::vector<std::pair<std::string, std::string>> order;
  for (const ResultFile& result : results) {
    for (const RowResult& row : compressed(result)) {
      std::pair<std::string, std::string> key(row.section, row.name);
      if (std::find(order.begin(), order.end(), key) != order.end()) continue;
      auto last = std::find_if(order.rbegin(), order.rend(),
                               [&](const auto& entry) { return entry.first == row.section; });
      order.insert(last.base() == order.begin() ? order.end() : last.base(), key);
    }
  }
  std::vector<Align> columns(1 + 2 * results.size(), Align::right);
  columns[0] = Align::left;
  TextGrid grid(columns);
  std::vector<std::string> header = {""}, full = {"full cache"};
  for (const ResultFile& result : results) {
    header.insert(header.end(), {"loss", printable(result.name)});
    bool none = result.rows.empty();
    full.insert(full.end(), {none ? "-" : bits(result.rows[0].loss_bits), plural(result.windows, "window")});
  }
  grid.row(header);
  grid.row(full);
  std::string section;
  for (const auto& [row_section, name] : order) {
    if (row_section != section) {
      section = row_section;
      grid.heading(section.empty() ? "other rows" : printable(section));
    }
    std::vector<std::string> cells = {"  " + printable(name)};
    for (const ResultFile& result : results) {
      auto rows = compressed(result);
      auto it = std::find_if(rows.begin(), rows.end(), [&](const RowResult& row) {
        return row.section == row_section && row.name == name;
      });
      bool found = it != rows.end();
      cells.insert(cells.end(), {found ? bits(it->loss_bits) : "-", found ? delta_of(*it) : "-"});
    }
    grid.row(cells);
  }
  return format == TableFormat::text ? grid.text() : grid.markdown();
}

std::string csv_value(const OrderedJson& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_field(value.get<std::string>());
  return csv_field(value.dump());
}

OrderedJson optional_number(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

void add_gaps(OrderedJson& rows, const std::vector<Gap>& gaps) {
  for (OrderedJson& row : rows) {
    for (const char* field : {"gap_closed", "gap_closed_low", "gap_closed_high"}) row[field] = nullptr;
  }
  for (const Gap& gap : gaps) {
    for (const GapClosed& closed : gap.rows) {
      rows[closed.row]["gap_closed"] = optional_number(closed.closed);
      rows[closed.row]["gap_closed_low"] = optional_number(closed.low);
      rows[closed.row]["gap_closed_high"] = optional_number(closed.high);
    }
  }
}

void add_positions(OrderedJson& rows, const ResultFile& result, const Losses* losses, int64_t count) {
  std::vector<PositionBlock> blocks = position_blocks(result, count);
  OrderedJson firsts = OrderedJson::array();
  for (const PositionBlock& block : blocks) firsts.push_back(block.first);
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r]["block_first_positions"] = firsts;
    rows[r]["block_loss_bits"] =
        losses != nullptr ? OrderedJson(block_means(losses->rows[r], result, blocks)) : OrderedJson(nullptr);
  }
}

/// The gap closed is a field of every row as soon as one result has it: a CSV has one header.
OrderedJson whole_results(std::span<const ResultFile> results, const TableOptions& options,
                          auto&& losses_of) {
  bool any = std::any_of(results.begin(), results.end(),
                         [](const ResultFile& result) { return !gaps_closed(result, nullptr).empty(); });
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < results.size(); ++i) {
    OrderedJson whole = result_to_json(results[i]);
    if (any) add_gaps(whole["rows"], gaps_closed(results[i], losses_of(i)));
    if (options.position_blocks > 0) {
      add_positions(whole["rows"], results[i], losses_of(i), options.position_blocks);
    }
    list.push_back(std::move(whole));
  }
  return list;
}

}  // namespace

std::string delta_cell(double delta_bits, double se_bits) {
  // A single token has no standard error.
  if (std::isnan(se_bits)) return fmt::format("({:+.3f} ±     -)", delta_bits);
  return fmt::format("({:+.3f} ± {:.3f})", delta_bits, se_bits);
}

std::string results_csv(const OrderedJson& results) {
  std::string out;
  for (OrderedJson whole : results) {
    OrderedJson rows = whole["rows"];
    whole.erase("rows");
    for (const OrderedJson& row : rows) {
      std::string header, line;
      auto add = [&](const std::string& key, const OrderedJson& value) {
        header += (header.empty() ? "" : ",") + csv_field(key);
        line += (header == csv_field(key) ? "" : ",") + csv_value(value);
      };
      for (const auto& [key, value] : row.items()) add(key == "config" ? "row_config" : key, value);
      for (const auto& [key, value] : whole.items()) add("result_" + key, value);
      if (out.empty()) out = header + "\n";
      out += line + "\n";
    }
  }
  return out;
}

nlohmann::ordered_json result_to_json(const ResultFile& result) {
  OrderedJson rows = OrderedJson::array();
  for (const RowResult& row : result.rows) {
    rows.push_back({{"name", row.name},
                    {"section", row.section},
                    {"loss_bits", row.loss_bits},
                    {"delta_bits", row.delta_bits},
                    {"delta_se_bits", row.delta_se_bits},
                    {"delta_low_bits", optional_number(row.delta_low_bits)},
                    {"delta_high_bits", optional_number(row.delta_high_bits)},
                    {"kl_bits", row.kl_bits},
                    {"top1_agreement", row.top1_agreement},
                    {"true_probability_change", row.true_probability_change},
                    {"tokens_kept", row.tokens_kept},
                    {"stored_bytes_per_token", row.stored_bytes_per_token},
                    {"effective_bits", row.effective_bits},
                    {"spread_bits", optional_number(row.spread_bits)},
                    {"spread_windows", row.spread_windows},
                    {"spread_repeats", row.spread_repeats},
                    {"seconds", row.seconds},
                    {"no_effect", row.no_effect},
                    {"looks_ahead", row.looks_ahead},
                    {"config", row.config}});
  }
  OrderedJson object = {{"schema_version", ResultFile::kSchemaVersion}};
  add_provenance(object, result);
  object["capability"] = result.capability;
  object["bos"] = result.bos ? OrderedJson(*result.bos) : OrderedJson(nullptr);
  object["windows"] = result.windows;
  object["length"] = result.length;
  object["scored"] = result.scored;
  object["key_statistics"] = result.key_statistics;
  object["rows"] = rows;
  return object;
}

bool wants_losses(const ResultFile& result, const TableOptions& options) {
  return options.position_blocks > 0 || !gaps_closed(result, nullptr).empty();
}

std::string table(std::span<const ResultFile> results, const TableOptions& options,
                  std::span<const std::optional<Losses>> losses) {
  if (!losses.empty() && losses.size() != results.size()) throw Failure("table: not one entry a result");
  auto losses_of = [&](size_t i) { return losses.empty() || !losses[i] ? nullptr : &*losses[i]; };
  switch (options.format) {
    case TableFormat::csv:
      return results_csv(whole_results(results, options, losses_of));
    case TableFormat::json:
      return whole_results(results, options, losses_of).dump(2) + "\n";
    case TableFormat::text:
    case TableFormat::markdown:
      break;
  }
  if (options.beside && results.size() > 1) return beside(results, options.format);
  std::string out;
  for (size_t i = 0; i < results.size(); ++i) {
    out += (out.empty() ? "" : "\n") + one_result(results[i], options, losses_of(i), results.size() > 1);
  }
  return out;
}

}  // namespace kvcost
