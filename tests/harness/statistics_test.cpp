#include "src/harness/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"

namespace kvcost {
namespace {

using Windows = std::vector<std::vector<double>>;

Windows losses(int windows, int tokens, bool row) {
  Windows all(windows, std::vector<double>(tokens));
  for (int g = 0; g < windows; ++g) {
    for (int i = 0; i < tokens; ++i) {
      all[g][i] = (i * 37 + g * 101) % 17 / 8.0;
      if (row) all[g][i] += (i * 29 + g * 53) % 13 / 16.0 - 0.25 * g / 4;
    }
  }
  return all;
}

PairedDifference paired(int windows, int tokens) {
  return paired_difference(losses(windows, tokens, true), losses(windows, tokens, false));
}

}  // namespace

// Goldens: NumPy and SciPy 1.17.1 on the same losses, d = row - full; d.std(ddof=1)/sqrt(d.size);
// g = d.mean(1); g.mean() -+ stats.t.ppf(.975, G-1) * g.std(ddof=1)/sqrt(G).
TEST(Statistics, MatchesNumpyAndScipy) {
  PairedDifference two = paired(2, 7), eight = paired(8, 11);
  EXPECT_NEAR(two.mean, 0.27232142857142855, 1e-14);
  EXPECT_NEAR(two.standard_error, 0.06372667871514093, 1e-14);
  EXPECT_NEAR(*two.low, -0.4650922391529955, 1e-12);
  EXPECT_NEAR(*two.high, 1.0097350962958527, 1e-12);
  EXPECT_NEAR(eight.mean, 0.15269886363636365, 1e-14);
  EXPECT_NEAR(eight.standard_error, 0.02687615339773368, 1e-14);
  EXPECT_NEAR(*eight.low, 0.048646397208980105, 1e-12);
  EXPECT_NEAR(*eight.high, 0.2567513300637472, 1e-12);
}

TEST(Statistics, OneWindowHasNoInterval) {
  PairedDifference one = paired(1, 10);
  EXPECT_NEAR(one.mean, 0.35625, 1e-14);
  EXPECT_NEAR(one.standard_error, 0.08335937093226065, 1e-14);
  EXPECT_FALSE(one.low.has_value());
  EXPECT_FALSE(one.high.has_value());
}

TEST(Statistics, OneTokenHasNoStandardError) {
  EXPECT_TRUE(std::isnan(paired(1, 1).standard_error));
  EXPECT_THROW(paired_difference(losses(2, 3, true), losses(1, 3, false)), Failure);
  EXPECT_THROW(paired_difference(losses(1, 3, true), losses(1, 4, false)), Failure);
}

TEST(Statistics, RatioOfMeansHoldsEveryRatioThatTheWindowsAllow) {
  std::vector<double> a = {0.9, 0.4, 0.7, 0.55}, b = {1.0, 0.7, 0.8, 0.75};
  RatioOfMeans ratio = ratio_of_means(a, b);
  EXPECT_NEAR(ratio.ratio, 2.55 / 3.25, 1e-12);
  ASSERT_TRUE(ratio.low && ratio.high);
  EXPECT_LT(*ratio.low, ratio.ratio);
  EXPECT_GT(*ratio.high, ratio.ratio);
  // At either end the t interval of a - g b just reaches 0.
  for (double g : {*ratio.low, *ratio.high}) {
    Windows row, full;
    for (size_t i = 0; i < a.size(); ++i) row.push_back({a[i]}), full.push_back({g * b[i]});
    PairedDifference paired = paired_difference(row, full);
    EXPECT_NEAR(std::min(std::abs(*paired.low), std::abs(*paired.high)), 0, 1e-12);
  }
  EXPECT_NEAR(*ratio_of_means(b, b).low, 1, 1e-7) << "a ratio that no window changes is exact";
  EXPECT_NEAR(*ratio_of_means(b, b).high, 1, 1e-7);
}

TEST(Statistics, RatioOfMeansHasNoIntervalWhereNoneIsBounded) {
  EXPECT_FALSE(ratio_of_means(std::vector<double>{0.5}, std::vector<double>{1.0}).low);
  // The denominators' own interval holds 0.
  EXPECT_FALSE(ratio_of_means(std::vector<double>{0.5, 0.6}, std::vector<double>{-1.0, 2.0}).low);
  EXPECT_TRUE(std::isnan(ratio_of_means(std::vector<double>{1, 2}, std::vector<double>{0, 0}).ratio));
  EXPECT_THROW(ratio_of_means(std::vector<double>{1, 2}, std::vector<double>{1}), Failure);
}

}  // namespace kvcost
