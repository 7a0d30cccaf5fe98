// harness/: runs experiments: from a config to per-token losses kept as units, and from units to a result
// file. Knows how results are made, not how they are printed.
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace kvcost {

double mean(std::span<const double> values);
/// ddof 1; NaN with fewer than two values.
double standard_deviation(std::span<const double> values);

/// A row against the full cache on the same tokens.
struct PairedDifference {
  double mean = 0;
  double standard_error = 0;        ///< sd(d, ddof 1) / sqrt(n), tokens taken as independent; NaN if n = 1
  std::optional<double> low, high;  ///< 95% interval with windows as clusters; none with one window
};

/// One vector of losses a window, in the same order; windows of one length. The interval: mean of per-window
/// means ± t(0.975, G - 1) * sd / sqrt(G).
PairedDifference paired_difference(std::span<const std::vector<double>> row,
                                   std::span<const std::vector<double>> full);

/// Sum of numerators over sum of denominators, one of each a window.
struct RatioOfMeans {
  double ratio = 0;  ///< NaN if the denominators sum to 0
  /// Fieller's 95% interval: every g for which the t interval of the mean of numerator - g * denominator
  /// holds 0. None with one window, or when the denominators' own t interval holds 0 (then no g is ruled out
  /// far from the ratio).
  std::optional<double> low, high;
};

RatioOfMeans ratio_of_means(std::span<const double> numerators, std::span<const double> denominators);

}  // namespace kvcost
