#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "src/harness/config/result_file.h"
#include "src/harness/losses.h"
#include "src/report/layout.h"

namespace kvcost {

/// How much of the way from random eviction (0) to the oracle's (1) a row has gone (docs/definitions.md).
struct GapClosed {
  size_t row = 0;                   ///< in the result
  std::optional<double> closed;     ///< none where the oracle is no better than random
  std::optional<double> low, high;  ///< 95% interval over windows
};

/// Rows that differ in nothing but which tokens they keep: one capacity, the same positions and rounding.
struct Gap {
  int64_t capacity = 0;
  double random_bits = 0;  ///< delta, mean over the random rows (seeds)
  double oracle_bits = 0;
  size_t random_rows = 0;
  bool renumbered = false, rounded = false;
  std::vector<GapClosed> rows;
};

/// One for each group that has "random" and "oracle" rows and others, in the order of their first row.
/// Without losses there are no intervals.
std::vector<Gap> gaps_closed(const ResultFile& result, const Losses* losses);

TextGrid gap_grid(const ResultFile& result, const std::vector<Gap>& gaps);

}  // namespace kvcost
