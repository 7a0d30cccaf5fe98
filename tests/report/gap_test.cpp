#include "src/report/gap.h"

#include <gtest/gtest.h>

#include "src/report/table.h"
#include "tests/report/sample_losses.h"

namespace kvcost {
namespace {

RowResult evicting(const std::string& name, double delta, nlohmann::json evict) {
  RowResult row = sample_row("", name.c_str(), 3.063 + delta, delta, 0.01);
  row.config = {{"evict", std::move(evict)}};
  return row;
}

ResultFile compared() {
  ResultFile result = sample_result();
  result.rows.resize(1);
  result.rows.push_back(evicting("a draw", 1.0, {{"policy", "random"}, {"capacity", 512}}));
  result.rows.push_back(evicting("h2o", 0.3, {{"policy", "h2o"}, {"capacity", 512}}));
  result.rows.push_back(
      evicting("another draw", 1.2, {{"policy", "random"}, {"capacity", 512}, {"seed", 1}, {"recent", 0}}));
  result.rows.push_back(
      evicting("a draw, sinks safe", 0.6, {{"policy", "random"}, {"capacity", 512}, {"sinks", 4}}));
  result.rows.push_back(evicting("the oracle", 0.1, {{"policy", "oracle"}, {"capacity", 512}}));
  result.rows.push_back(evicting("h2o 256", 0.5, {{"policy", "h2o"}, {"capacity", 256}}));
  return result;
}

}  // namespace

TEST(Gap, IsFromTheMeanOfTheDrawsToTheOracle) {
  ResultFile result = compared();
  std::vector<Gap> gaps = gaps_closed(result, nullptr);
  ASSERT_EQ(gaps.size(), 1u) << "256 has neither end";
  EXPECT_EQ(gaps[0].capacity, 512);
  EXPECT_EQ(gaps[0].random_rows, 2u);
  EXPECT_NEAR(gaps[0].random_bits, 1.1, 1e-12);
  EXPECT_NEAR(gaps[0].oracle_bits, 0.1, 1e-12);
  ASSERT_EQ(gaps[0].rows.size(), 2u);
  EXPECT_EQ(gaps[0].rows[0].row, 2u);
  EXPECT_NEAR(gaps[0].rows[0].closed.value(), 0.8, 1e-12);
  EXPECT_FALSE(gaps[0].rows[0].low) << "no losses, no interval";
  EXPECT_EQ(gaps[0].rows[1].row, 4u) << "safe tokens make another policy of it";
  EXPECT_NEAR(gaps[0].rows[1].closed.value(), 0.5, 1e-12);
}

TEST(Gap, ItsIntervalIsOverWindows) {
  ResultFile result = compared();
  Losses losses = sample_losses(result);
  GapClosed closed = gaps_closed(result, &losses)[0].rows[0];
  ASSERT_TRUE(closed.low && closed.high);
  EXPECT_LT(*closed.low, 0.8);
  EXPECT_GT(*closed.high, 0.8);
  EXPECT_LT(*closed.high - *closed.low, 0.2);
  losses = sample_losses(result, 0);
  closed = gaps_closed(result, &losses)[0].rows[0];
  EXPECT_NEAR(*closed.low, 0.8, 1e-6) << "all windows alike";
  EXPECT_NEAR(*closed.high, 0.8, 1e-6);
}

TEST(Gap, ComparesLikeWithLike) {
  ResultFile result = compared();
  result.rows[2].config["keys"] = {{"codec", "minmax"}, {"bits", 4}};
  result.rows[4].config["evict"]["positions"] = "cache";
  EXPECT_TRUE(gaps_closed(result, nullptr).empty()) << "no row differs from both ends by its choice alone";
  result = compared();
  result.rows[4].config["evict"]["positions"] = "original";
  EXPECT_EQ(gaps_closed(result, nullptr)[0].rows.size(), 2u) << "as without saying so";
  for (const nlohmann::json& evict :
       {nlohmann::json("h2o"), nlohmann::json::array(), nlohmann::json{{"policy", 3}, {"capacity", 512}},
        nlohmann::json{{"policy", "h2o"}, {"capacity", "512"}}}) {
    result.rows[2].config["evict"] = evict;
    EXPECT_EQ(gaps_closed(result, nullptr)[0].rows.size(), 1u) << evict;
  }
}

TEST(Gap, OfNothingIsNone) {
  ResultFile result = compared();
  result.rows[5].delta_bits = 1.1;
  EXPECT_FALSE(gaps_closed(result, nullptr)[0].rows[0].closed);
}

TEST(Gap, MarksRowsThatKeepMore) {
  ResultFile result = compared();
  auto printed = [&] { return table(std::span(&result, 1), {}); };
  EXPECT_EQ(printed().find("+ keeps more"), std::string::npos);
  result.rows[2].tokens_kept = 1023.5;
  result.rows[4].tokens_kept = 512 * (1 + 1e-12);
  const std::string text = printed();
  EXPECT_NE(text.find("  h2o                           80.0%             -      1,023.5 +\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  a draw, sinks safe            50.0%             -        512.0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n+ keeps more tokens than the capacity"), std::string::npos) << text;
}

TEST(Gap, StandsBelowTheTableAndInEveryFormat) {
  ResultFile result = compared();
  std::optional<Losses> losses = sample_losses(result);
  auto printed = [&](TableFormat format) {
    return table(std::span(&result, 1), {.format = format}, std::span(&losses, 1));
  };
  EXPECT_TRUE(wants_losses(result, {}));
  EXPECT_FALSE(wants_losses(sample_result(), {}));
  std::string text = printed(TableFormat::text);
  EXPECT_NE(text.find("\n\nfrom random to the oracle  gap closed"), std::string::npos) << text;
  EXPECT_NE(text.find("\ncapacity 512: random +1.100 (mean of 2 rows), oracle +0.100\n"), std::string::npos);
  EXPECT_NE(text.find("  h2o                           80.0%   75.4..85.2%        512.0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(printed(TableFormat::markdown).find("|      80.0% | "), std::string::npos);

  auto rows = nlohmann::json::parse(printed(TableFormat::json))[0]["rows"];
  EXPECT_NEAR(rows[2]["gap_closed"].get<double>(), 0.8, 1e-12);
  EXPECT_LT(rows[2]["gap_closed_low"].get<double>(), 0.8);
  EXPECT_TRUE(rows[1]["gap_closed"].is_null());
  std::string csv = printed(TableFormat::csv);
  std::string header = csv.substr(0, csv.find('\n'));
  EXPECT_NE(header.find(",gap_closed,gap_closed_low,gap_closed_high,"), std::string::npos) << header;
  std::string without = table(std::span(&result, 1), {});
  EXPECT_NE(without.find("80.0%             -"), std::string::npos) << without;
}

}  // namespace kvcost
