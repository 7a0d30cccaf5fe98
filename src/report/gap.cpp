#include "src/report/gap.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/printable.h"
#include "src/harness/statistics.h"

namespace kvcost {
namespace {

using Json = nlohmann::json;

struct Group {
  Json setting;  ///< capacity, positions and rounding
  std::vector<size_t> random, oracle, others;
};

/// null for rows that have no capacity.
Json setting_of(const Json& config) {
  if (!config.is_object() || !config.contains("evict") || !config["evict"].is_object()) return {};
  const Json& evict = config["evict"];
  if (!evict.contains("policy") || !evict.contains("capacity")) return {};
  if (!evict["policy"].is_string() || !evict["capacity"].is_number_integer()) return {};
  Json setting = config;
  setting["evict"] = {{"capacity", evict["capacity"]},
                      {"positions", evict.value("positions", Json("original"))}};
  return setting;
}

/// Whether the policy chooses among all tokens: none is safe by its position.
bool is_plain(const Json& evict) {
  return std::all_of(evict.items().begin(), evict.items().end(), [](const auto& knob) {
    const Json& value = knob.value();
    return knob.key() == "policy" || knob.key() == "capacity" || knob.key() == "positions" ||
           knob.key() == "seed" || value == Json(0) || value == Json(false) || value.is_null();
  });
}

std::vector<Group> groups_of(const ResultFile& result) {
  std::vector<Group> groups;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    Json setting = setting_of(result.rows[r].config);
    if (setting.is_null()) continue;
    auto at = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& group) { return group.setting == setting; });
    if (at == groups.end()) at = groups.insert(groups.end(), Group{setting, {}, {}, {}});
    const Json& evict = result.rows[r].config["evict"];
    bool plain = is_plain(evict);
    if (plain && evict["policy"] == "random") {
      at->random.push_back(r);
    } else if (plain && evict["policy"] == "oracle") {
      at->oracle.push_back(r);
    } else {
      at->others.push_back(r);
    }
  }
  return groups;
}

/// Mean loss of each window, over the rows.
std::vector<double> window_means(const Losses& losses, const std::vector<size_t>& rows) {
  std::vector<double> means(losses.rows[rows[0]].size(), 0);
  for (size_t row : rows) {
    for (size_t w = 0; w < means.size(); ++w) {
      means[w] += mean(losses.rows[row][w]) / static_cast<double>(rows.size());
    }
  }
  return means;
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// A mean of whole numbers may miss the capacity by its rounding.
bool keeps_more(const RowResult& row, int64_t capacity) {
  return row.tokens_kept > static_cast<double>(capacity) * (1 + 1e-9);
}

double mean_delta(const ResultFile& result, const std::vector<size_t>& rows) {
  std::vector<double> deltas;
  for (size_t row : rows) deltas.push_back(result.rows[row].delta_bits);
  return mean(deltas);
}

}  // namespace

std::vector<Gap> gaps_closed(const ResultFile& result, const Losses* losses) {
  std::vector<Gap> gaps;
  for (const Group& group : groups_of(result)) {
    if (group.random.empty() || group.oracle.empty() || group.others.empty()) continue;
    Gap gap;
    const Json& evict = group.setting["evict"];
    gap.capacity = evict["capacity"].get<int64_t>();
    gap.renumbered = evict["positions"] != "original";
    gap.rounded = group.setting.contains("keys") || group.setting.contains("values");
    gap.random_bits = mean_delta(result, group.random);
    gap.oracle_bits = mean_delta(result, group.oracle);
    gap.random_rows = group.random.size();
    double whole = gap.random_bits - gap.oracle_bits;
    for (size_t row : group.others) {
      GapClosed closed{row, {}, {}, {}};
      if (whole > 0) {
        closed.closed = (gap.random_bits - result.rows[row].delta_bits) / whole;
        if (losses != nullptr) {
          std::vector<double> random = window_means(*losses, group.random);
          RatioOfMeans ratio = ratio_of_means(difference(random, window_means(*losses, {row})),
                                              difference(random, window_means(*losses, group.oracle)));
          closed.low = ratio.low, closed.high = ratio.high;
        }
      }
      gap.rows.push_back(closed);
    }
    gaps.push_back(std::move(gap));
  }
  return gaps;
}

TextGrid gap_grid(const ResultFile& result, const std::vector<Gap>& gaps) {
  using Align = TextGrid::Align;
  TextGrid grid({Align::left, Align::right, Align::right, Align::right});
  bool any_more = false;
  for (const Gap& gap : gaps) {
    any_more = any_more || std::any_of(gap.rows.begin(), gap.rows.end(), [&](const GapClosed& closed) {
                 return keeps_more(result.rows[closed.row], gap.capacity);
               });
  }
  const std::string none = any_more ? "  " : "";
  grid.row({"from random to the oracle", "gap closed", "95% interval", "tokens kept" + none});
  for (const Gap& gap : gaps) {
    std::string several = gap.random_rows > 1 ? fmt::format(" (mean of {} rows)", gap.random_rows) : "";
    grid.heading(fmt::format("capacity {}{}{}: random {:+.3f}{}, oracle {:+.3f}", with_commas(gap.capacity),
                             gap.renumbered ? ", positions renumbered" : "", gap.rounded ? ", rounded" : "",
                             gap.random_bits, several, gap.oracle_bits));
    for (const GapClosed& closed : gap.rows) {
      const RowResult& row = result.rows[closed.row];
      std::string interval = "-";
      if (closed.low) interval = fmt::format("{:.1f}..{:.1f}%", 100 * *closed.low, 100 * *closed.high);
      grid.row({"  " + printable(row.name),
                closed.closed ? fmt::format("{:.1f}%", 100 * *closed.closed) : "-", interval,
                with_commas(row.tokens_kept, 1) + (keeps_more(row, gap.capacity) ? " +" : none)});
    }
  }
  if (any_more) {
    grid.heading(
        "+ keeps more tokens than the capacity that random and the oracle are held to: its gap is no "
        "merit of its choice alone");
  }
  return grid;
}

}  // namespace kvcost
