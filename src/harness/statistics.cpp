#include "src/harness/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "src/base/error.h"

namespace kvcost {

double mean(std::span<const double> values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  double middle = mean(values), squares = 0;
  for (double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

PairedDifference paired_difference(std::span<const std::vector<double>> row,
                                   std::span<const std::vector<double>> full) {
  if (row.size() != full.size()) throw Failure("paired losses: another number of windows");
  std::vector<double> all, windows;
  for (size_t w = 0; w < row.size(); ++w) {
    if (row[w].size() != full[w].size()) throw Failure("paired losses: another number of tokens");
    size_t first = all.size();
    for (size_t t = 0; t < row[w].size(); ++t) all.push_back(row[w][t] - full[w][t]);
    windows.push_back(mean(std::span(all).subspan(first)));
  }
  PairedDifference paired;
  paired.mean = mean(all);
  paired.standard_error = standard_deviation(all) / std::sqrt(static_cast<double>(all.size()));
  if (windows.size() > 1) {
    auto count = static_cast<double>(windows.size());
    double t = boost::math::quantile(boost::math::students_t(count - 1), 0.975);
    double half = t * standard_deviation(windows) / std::sqrt(count);
    paired.low = mean(windows) - half;
    paired.high = mean(windows) + half;
  }
  return paired;
}

}  // namespace kvcost
