#include "src/report/key_statistics.h"

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace kvcost {

// Worked by hand: two tokens, two heads of two channels.
TEST(KeyStatistics, ByHand) {
  at::Tensor keys = at::tensor({10.f, 0.f, 1.f, 1.f, 12.f, 0.f, 1.f, 3.f}).view({2, 2, 2});
  at::Tensor bias = at::tensor({10.f, -1.f, 0.f, 0.f}).view({2, 2});
  KeyStatistics s = key_statistics(3, keys, bias);
  EXPECT_EQ(s.layer, 3);
  EXPECT_EQ(s.largest_bias, 10);
  EXPECT_DOUBLE_EQ(s.span, (10 + 0 + 12 + 2) / 4.0);
  EXPECT_DOUBLE_EQ(s.span_without_bias, (1 + 0 + 1 + 2) / 4.0);
  EXPECT_DOUBLE_EQ(s.variation, 2 * std::sqrt(2.0) / 4);
  KeyStatistics none = key_statistics(3, keys, at::Tensor());
  EXPECT_EQ(none.largest_bias, 0);
  EXPECT_EQ(none.span_without_bias, none.span);
  EXPECT_THROW(key_statistics(0, keys.narrow(0, 0, 1), bias), InputError);
}

TEST(KeyStatistics, JsonGoesAroundAndRefusesByPath) {
  std::vector<KeyStatistics> layers = {{0, 130, 243.7, 4.4, 0.4}, {12, 4.4, 11.8, 7.4, 0.75}};
  nlohmann::json json = key_statistics_to_json(layers);
  std::vector<KeyStatistics> back = key_statistics_from_json(json, "x");
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[1].span_without_bias, 7.4);
  EXPECT_TRUE(key_statistics_from_json(nullptr, "x").empty());
  json[1]["span"] = "wide";
  try {
    key_statistics_from_json(json, "r.json: key_statistics");
    FAIL() << "accepted a span that is a string";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "r.json: key_statistics[1].span: found \"wide\", expected a number");
  }
}

}  // namespace kvcost
