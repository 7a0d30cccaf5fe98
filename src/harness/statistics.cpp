#include "src/harness/statistics.h"

#include <algorithm>
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

namespace {

/// Student's t for a 95% interval of a mean of `count` values.
double t_of(double count) { return boost::math::quantile(boost::math::students_t(count - 1), 0.975); }

}  // namespace

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
    double half = t_of(count) * standard_deviation(windows) / std::sqrt(count);
    paired.low = mean(windows) - half;
    paired.high = mean(windows) + half;
  }
  return paired;
}

RatioOfMeans ratio_of_means(std::span<const double> numerators, std::span<const double> denominators) {
  if (numerators.size() != denominators.size()) throw Failure("ratio of means: another number of windows");
  double a = mean(numerators), b = mean(denominators);
  RatioOfMeans out;
  out.ratio = b == 0 ? std::numeric_limits<double>::quiet_NaN() : a / b;
  if (numerators.size() < 2 || b == 0) return out;
  // (a - g b)^2 <= t^2 var(a - g b), a quadratic in g.
  auto count = static_cast<double>(numerators.size());
  double aa = 0, ab = 0, bb = 0;
  for (size_t i = 0; i < numerators.size(); ++i) {
    double x = numerators[i] - a, y = denominators[i] - b;
    aa += x * x, ab += x * y, bb += y * y;
  }
  double scale = t_of(count) * t_of(count) / ((count - 1) * count);
  double second = b * b - scale * bb, first = a * b - scale * ab, constant = a * a - scale * aa;
  if (second <= 0) return out;
  double root = std::sqrt(std::max(0.0, first * first - second * constant));
  out.low = (first - root) / second;
  out.high = (first + root) / second;
  return out;
}

}  // namespace kvcost
