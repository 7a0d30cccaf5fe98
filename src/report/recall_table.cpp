#include "src/report/recall_table.h"

#include <fmt/format.h>

#include "src/report/layout.h"

namespace kvcost {
namespace {

using Align = TextGrid::Align;

struct Point {
  const char* name;
  const char* heading;
};

constexpr Point kPoints[] = {{"", "nothing is evicted:"},
                             {"before", "eviction decided before either question is seen:"},
                             {"first", "decided after the first question, before the follow-up:"},
                             {"both", "decided after both questions:"}};

std::string share(double value) { return fmt::format("{:.0f}%", 100 * value); }

std::string interval(const CaseMean& mean) {
  return mean.low && mean.high ? fmt::format("{:+.2f}..{:+.2f}", *mean.low, *mean.high) : "-";
}

std::string marked(const RecallRow& row, const RecallCell& cell) {
  return row.name + (cell.no_effect ? " (no effect)" : "") + (row.looks_ahead ? " *" : "");
}

/// Every row that has a cell decided there, under the point's heading.
template <class Line>
void by_point(const RecallResult& result, TextGrid& grid, Line&& line) {
  for (const Point& point : kPoints) {
    bool begun = false;
    for (size_t r = 1; r < result.rows.size(); ++r) {
      for (const RecallCell& cell : result.rows[r].cells) {
        if (cell.decided != point.name) continue;
        if (!begun) grid.heading(point.heading);
        begun = true;
        grid.row(line(result.rows[r], cell));
      }
    }
  }
}

std::string answers(const RecallResult& result) {
  TextGrid grid({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
                 Align::right, Align::right});
  grid.row({"", "kept", "first", "95% interval", "recalled", "follow-up", "95% interval", "recalled"});
  by_point(result, grid, [](const RecallRow& row, const RecallCell& cell) {
    std::vector<std::string> cells = {"  " + marked(row, cell), with_commas(cell.tokens_kept, 0)};
    auto add = [&](const RecallScore* score) {
      cells.push_back(score ? fmt::format("{:+.2f}", score->delta_bits.mean) : "-");
      cells.push_back(score ? interval(score->delta_bits) : "-");
      cells.push_back(score ? share(score->recalled) : "-");
    };
    add(cell.first ? &*cell.first : nullptr);
    add(&cell.follow_up);
    return cells;
  });
  return grid.text();
}

std::string prices(const RecallResult& result) {
  TextGrid grid({Align::left, Align::right, Align::right});
  grid.row({"", "bits", "95% interval"});
  bool any = false;
  for (const RecallRow& row : result.rows) {
    if (!row.follow_up_price_bits) continue;
    any = true;
    grid.row({"  " + row.name, fmt::format("{:+.2f}", row.follow_up_price_bits->mean),
              interval(*row.follow_up_price_bits)});
  }
  return any ? "\nwhat the follow-up loses because the first question decided and not both:\n" + grid.text()
             : "";
}

std::string depths(const RecallResult& result) {
  std::vector<Align> columns(1 + result.depths.size(), Align::right);
  columns[0] = Align::left;
  TextGrid grid(columns);
  std::vector<std::string> header = {""};
  for (double depth : result.depths) header.push_back("at " + share(depth));
  grid.row(header);
  auto line = [](const std::string& name, const RecallCell& cell) {
    std::vector<std::string> cells = {"  " + name};
    for (const RecallScore& score : cell.follow_up_by_depth) {
      cells.push_back(fmt::format("{:+.2f} ({})", score.delta_bits.mean, share(score.recalled)));
    }
    return cells;
  };
  const RecallRow& full = result.rows[0];
  std::vector<std::string> losses = {full.name + ", its loss"};
  for (const RecallScore& score : full.cells[0].follow_up_by_depth) {
    losses.push_back(fmt::format("{:.2f} ({})", score.loss_bits, share(score.recalled)));
  }
  grid.row(losses);
  by_point(result, grid,
           [&](const RecallRow& row, const RecallCell& cell) { return line(marked(row, cell), cell); });
  return "\nthe follow-up by the depth of its fact, delta (recalled):\n" + grid.text();
}

std::string full_cache(const RecallResult& result) {
  const RecallCell& full = result.rows[0].cells[0];
  return fmt::format(
      "full cache: first answer {:.2f} bits, {} recalled; follow-up {:.2f} bits, {} recalled; {} cases at {} "
      "depths\n",
      full.first->loss_bits, share(full.first->recalled), full.follow_up.loss_bits,
      share(full.follow_up.recalled), result.cases, result.depths.size());
}

std::string notes(const RecallResult& result) {
  std::string text = fmt::format(
      "{}, {}; contexts of {} tokens with two facts, then a question about each; answers of {:.1f} tokens\n"
      "first, follow-up: bits of an answer less the full cache's; interval: over cases; recalled: every "
      "answer\n"
      "token is the most probable one; kept: of the tokens before the decision, those that stay for good\n",
      result.model, result.dtype, with_commas(result.context_tokens, 0), result.answer_tokens);
  for (const RecallRow& row : result.rows) {
    if (row.looks_ahead) return text + "* looks ahead: decides by later tokens, as no cache could\n";
  }
  return text;
}

std::string kinds_of_processors(const RecallResult& result) {
  if (result.capabilities.size() < 2) return "";
  std::string all;
  for (const std::string& kind : result.capabilities) all += (all.empty() ? "" : ", ") + kind;
  return "measured on processors of several kinds: " + all + "\n";
}

}  // namespace

std::string recall_table(const RecallResult& result) {
  return full_cache(result) + answers(result) + prices(result) + depths(result) + notes(result) +
         kinds_of_processors(result);
}

}  // namespace kvcost
