#include "src/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/report/by_position.h"
#include "src/report/key_statistics.h"
#include "src/report/layout.h"

namespace kvcost {
namespace {

using Json = nlohmann::json;

constexpr int64_t kBlocks = 16;
/// Doublings of x that lines with common points are drawn apart by, and all of them together at most.
constexpr double kApart = 0.05, kAllApart = 0.4;

/// "NAME: " where there are results to tell apart.
std::string prefix(std::span<const ResultFile> results, size_t index) {
  return results.size() > 1 ? printable(results[index].name) + ": " : "";
}

std::vector<std::string> heading_of(std::span<const ResultFile> results) {
  std::vector<std::string> lines;
  for (const ResultFile& result : results) {
    std::string line =
        fmt::format("{}, {} window{} of {} tokens, the last {} scored", shortened(result.model),
                    with_commas(result.windows), result.windows == 1 ? "" : "s", with_commas(result.length),
                    with_commas(result.scored));
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

bool rounds(const RowResult& row) { return row.config.contains("keys") || row.config.contains("values"); }
bool evicts(const RowResult& row) {
  return row.config.contains("evict") && row.config["evict"].is_object() &&
         row.config["evict"].contains("policy") && row.config["evict"]["policy"].is_string();
}

/// Rows of one result that are one policy at several capacities.
struct PolicyLine {
  size_t result = 0;
  Json evict;  ///< less the capacity
  std::vector<const RowResult*> rows;
};

std::vector<PolicyLine> policy_lines(std::span<const ResultFile> results) {
  std::vector<PolicyLine> lines;
  for (size_t r = 0; r < results.size(); ++r) {
    for (const RowResult& row : results[r].rows) {
      if (!evicts(row) || rounds(row)) continue;
      Json evict = row.config["evict"];
      evict.erase("capacity");
      auto same = [&](const PolicyLine& line) { return line.result == r && line.evict == evict; };
      auto at = std::find_if(lines.begin(), lines.end(), same);
      if (at == lines.end()) at = lines.insert(lines.end(), {r, evict, {}});
      at->rows.push_back(&row);
    }
  }
  for (PolicyLine& line : lines) {
    std::stable_sort(line.rows.begin(), line.rows.end(),
                     [](const RowResult* a, const RowResult* b) { return a->tokens_kept < b->tokens_kept; });
  }
  return lines;
}

/// The policy, and its knobs where another line has the same policy: "random, seed 1".
std::string name_of(const PolicyLine& line, const std::vector<PolicyLine>& all) {
  const Json& policy = line.evict["policy"];
  bool alone = std::none_of(all.begin(), all.end(), [&](const PolicyLine& other) {
    return other.evict["policy"] == policy && other.evict != line.evict;
  });
  std::string name = policy.get<std::string>();
  if (alone) return name;
  for (const auto& [knob, value] : line.evict.items()) {
    if (knob == "policy") continue;
    std::string shown = value.is_string() ? value.get<std::string>()
                                          : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    name += fmt::format(", {} {}", knob, shown);
  }
  return name;
}

Chart::Point point_of(const RowResult& row) {
  Chart::Point point{row.tokens_kept, row.delta_bits, row.delta_low_bits, row.delta_high_bits};
  if (!point.low || !point.high) {
    point.low = point.high = std::nullopt;
    if (!std::isnan(row.delta_se_bits)) {
      point.low = row.delta_bits - row.delta_se_bits;
      point.high = row.delta_bits + row.delta_se_bits;
    }
  }
  return point;
}

bool share_an_x(const Chart::Line& a, const Chart::Line& b) {
  return std::any_of(a.points.begin(), a.points.end(), [&](const Chart::Point& p) {
    return std::any_of(b.points.begin(), b.points.end(),
                       [&](const Chart::Point& q) { return std::abs(p.x / q.x - 1) < 0.02; });
  });
}

/// Error bars at the same x hide each other: lines that share one are drawn side by side.
bool draw_apart(std::vector<Chart::Line>& lines) {
  std::vector<Chart::Line*> sharing;
  for (Chart::Line& line : lines) {
    bool shares = std::any_of(lines.begin(), lines.end(), [&](const Chart::Line& other) {
      return &other != &line && share_an_x(line, other);
    });
    if (shares) sharing.push_back(&line);
  }
  double step = std::min(kApart, kAllApart / static_cast<double>(std::max<size_t>(sharing.size(), 1)));
  for (size_t i = 0; i < sharing.size(); ++i) {
    double shift = (static_cast<double>(i) - 0.5 * static_cast<double>(sharing.size() - 1)) * step;
    for (Chart::Point& point : sharing[i]->points) point.x *= std::exp2(shift);
  }
  return !sharing.empty();
}

/// Powers of two over the points, or the points themselves where those would be too few.
std::vector<Chart::Tic> log_tics(const std::vector<Chart::Line>& lines) {
  double least = INFINITY, most = 0;
  std::set<int64_t> points;
  for (const Chart::Line& line : lines) {
    for (const Chart::Point& point : line.points) {
      least = std::min(least, point.x), most = std::max(most, point.x);
      points.insert(std::llround(point.x));
    }
  }
  std::vector<Chart::Tic> tics;
  for (int64_t at = 1; static_cast<double>(at) <= most * 1.05 && at < int64_t{1} << 40; at *= 2) {
    if (static_cast<double>(at) >= least / 1.05) tics.push_back({static_cast<double>(at), with_commas(at)});
  }
  if (tics.size() >= 2) return tics;
  tics.clear();
  for (int64_t at : points) {
    if (tics.empty() || static_cast<double>(at) > tics.back().at * 1.2) {
      tics.push_back({static_cast<double>(at), with_commas(at)});
    }
  }
  return tics;
}

}  // namespace

Chart loss_chart(std::span<const ResultFile> results) {
  std::vector<PolicyLine> policies = policy_lines(results);
  Chart chart;
  chart.heading = heading_of(results);
  chart.x_label = "mean tokens kept (tokens, log scale)";
  chart.y_label = "loss above full cache (bits per token)";
  chart.log_x = chart.zero_line = true;
  bool intervals = false, errors = false;
  for (const PolicyLine& policy : policies) {
    Chart::Line line{shortened(prefix(results, policy.result) + name_of(policy, policies)), {}};
    for (const RowResult* row : policy.rows) {
      if (!(row->tokens_kept > 0) || !std::isfinite(row->tokens_kept)) continue;
      (row->delta_low_bits && row->delta_high_bits ? intervals : errors) = true;
      line.points.push_back(point_of(*row));
    }
    if (!line.points.empty()) chart.lines.push_back(line);
  }
  if (chart.lines.empty()) {
    throw InputError(
        fmt::format("{}: found no row that evicts and does not round, which the plot of losses "
                    "needs; --kind position shows any row",
                    printable(results[0].name)));
  }
  chart.x_tics = log_tics(chart.lines);
  std::string bars = intervals ? "bars: 95% interval over windows" : "bars: ± standard error over tokens";
  if (intervals && errors) bars += ", ± standard error where there is one window";
  if (draw_apart(chart.lines)) bars += "; equal tokens kept are drawn side by side";
  chart.heading.push_back(bars);
  int64_t left_out = 0;
  for (const ResultFile& result : results) {
    left_out += std::count_if(result.rows.begin(), result.rows.end(), rounds);
  }
  if (left_out > 0) {
    chart.heading.push_back(left_out == 1 ? "1 row that rounds is left out"
                                          : fmt::format("{} rows that round are left out", left_out));
  }
  return chart;
}

Chart position_chart(std::span<const ResultFile> results, std::span<const Losses> losses) {
  Chart chart;
  chart.heading = heading_of(results);
  int64_t shortest = INT64_MAX, longest = 0;
  for (size_t r = 0; r < results.size(); ++r) {
    const ResultFile& result = results[r];
    std::vector<PositionBlock> blocks = position_blocks(result, kBlocks);
    for (const PositionBlock& block : blocks) {
      shortest = std::min(shortest, block.last - block.first + 1);
      longest = std::max(longest, block.last - block.first + 1);
    }
    for (size_t i = 0; i < result.rows.size(); ++i) {
      Chart::Line line{shortened(prefix(results, r) + result.rows[i].name), {}, i == 0 && r == 0};
      std::vector<double> means = block_means(losses[r].rows[i], result, blocks);
      for (size_t b = 0; b < blocks.size(); ++b)
        line.points.push_back({blocks[b].middle(), means[b], {}, {}});
      chart.lines.push_back(std::move(line));
    }
  }
  std::string size =
      shortest == longest ? with_commas(shortest) : with_commas(shortest) + " to " + with_commas(longest);
  chart.x_label = fmt::format("position in the window (tokens), in blocks of {}", size);
  chart.y_label = "mean loss (bits per token)";
  return chart;
}

Chart keys_chart(std::span<const ResultFile> results) {
  Chart chart;
  chart.x_label = "layer";
  chart.y_label = "key channels (model units, log scale)";
  chart.log_y = true;
  chart.heading = {"keys before rotary embedding, one window"};
  for (size_t r = 0; r < results.size(); ++r) {
    const ResultFile& result = results[r];
    std::string path = printable(result.name) + ": key_statistics";
    std::vector<KeyStatistics> layers = key_statistics_from_json(result.key_statistics, path);
    if (layers.empty()) throw InputError(path + ": found none, which the plot of keys needs");
    bool bias = std::any_of(layers.begin(), layers.end(),
                            [](const KeyStatistics& layer) { return layer.largest_bias > 0; });
    auto add = [&](const std::string& name, double KeyStatistics::*field) {
      Chart::Line line{shortened(prefix(results, r) + name), {}};
      for (const KeyStatistics& layer : layers) {
        // A zero has no place on a log scale.
        double value = layer.*field > 0 ? layer.*field : NAN;
        line.points.push_back({static_cast<double>(layer.layer), value, {}, {}});
      }
      chart.lines.push_back(std::move(line));
    };
    if (bias) add("largest |bias|", &KeyStatistics::largest_bias);
    add("span of a token's channels", &KeyStatistics::span);
    if (bias) add("the same without the bias", &KeyStatistics::span_without_bias);
    add("variation of a channel from token to token", &KeyStatistics::variation);
    chart.heading.push_back(shortened(prefix(results, r) + result.model) +
                            (bias ? "" : " (its keys have no bias)"));
  }
  return chart;
}

}  // namespace kvcost
