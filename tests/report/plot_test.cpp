#include "src/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/report/by_position.h"
#include "src/report/key_statistics.h"
#include "tests/report/sample_losses.h"

namespace kvcost {
namespace {

RowResult evicting(const char* policy, int64_t capacity, double delta, nlohmann::json knobs = {}) {
  RowResult row = sample_row("", "", 3.063 + delta, delta, 0.01);
  row.name = std::string(policy) + " " + std::to_string(capacity) + knobs.dump();
  knobs["policy"] = policy;
  knobs["capacity"] = capacity;
  row.config = {{"evict", knobs}};
  row.tokens_kept = static_cast<double>(capacity);
  return row;
}

ResultFile evictions() {
  ResultFile result = sample_result();
  result.rows.resize(1);
  result.rows.push_back(evicting("window", 512, 0.8));
  result.rows.push_back(evicting("sinks", 512, 0.1, {{"sinks", 4}}));
  result.rows.push_back(evicting("window", 128, 1.3));
  result.rows.push_back(evicting("sinks", 128, 0.4, {{"sinks", 4}}));
  result.rows.push_back(evicting("random", 512, 0.9, {{"seed", 0}}));
  result.rows.push_back(evicting("random", 512, 0.95, {{"seed", 1}}));
  RowResult rounded = evicting("window", 256, 2);
  rounded.config["keys"] = {{"codec", "minmax"}};
  result.rows.push_back(rounded);
  return result;
}

std::vector<std::string> names_of(const Chart& chart) {
  std::vector<std::string> names;
  for (const Chart::Line& line : chart.lines) names.push_back(line.name);
  return names;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

bool has_gnuplot() {
  try {
    run_gnuplot("set terminal svg\nplot 1\n");
    return true;
  } catch (const Failure&) {
    return false;
  }
}

}  // namespace

TEST(LossChart, OneLineAPolicyAndTheKnobsWhereTheyDiffer) {
  ResultFile result = evictions();
  Chart chart = loss_chart(std::span(&result, 1));
  EXPECT_EQ(names_of(chart),
            (std::vector<std::string>{"window", "sinks", "random, seed 0", "random, seed 1"}));
  ASSERT_EQ(chart.lines[0].points.size(), 2u);
  EXPECT_EQ(chart.lines[0].points[0].y, 1.3) << "in the order of tokens kept";
  EXPECT_EQ(chart.lines[0].points[1].y, 0.8);
  EXPECT_NEAR(chart.lines[0].points[0].low.value(), 1.25, 1e-12);
  EXPECT_NE(chart.lines[0].points[0].x, chart.lines[1].points[0].x) << "or one bar hides the other";
  EXPECT_NEAR(chart.lines[0].points[0].x / 128, 1, 0.1);
  std::string heading = joined(chart.heading);
  EXPECT_NE(heading.find("bars: 95% interval over windows; equal tokens kept are drawn side by side\n"
                         "1 row that rounds is left out\n"),
            std::string::npos)
      << heading;
  ASSERT_EQ(chart.x_tics.size(), 3u);
  EXPECT_EQ(chart.x_tics[1].label, "256");
}

TEST(LossChart, OneWindowHasStandardErrors) {
  ResultFile result = evictions();
  result.windows = 1;
  for (RowResult& row : result.rows) row.delta_low_bits = row.delta_high_bits = std::nullopt;
  result.rows[1].delta_se_bits = NAN;
  Chart chart = loss_chart(std::span(&result, 1));
  EXPECT_FALSE(chart.lines[0].points[1].low) << "a single token has no standard error";
  EXPECT_NEAR(chart.lines[0].points[0].low.value(), 1.29, 1e-12);
  EXPECT_NEAR(chart.lines[0].points[0].high.value(), 1.31, 1e-12);
  EXPECT_NE(joined(chart.heading).find("bars: ± standard error over tokens"), std::string::npos);
}

TEST(LossChart, SeveralResultsAreNamed) {
  std::vector<ResultFile> results = {evictions(), evictions()};
  results[1].name = "other";
  results[1].model = "tiny-2m";
  Chart chart = loss_chart(results);
  ASSERT_EQ(chart.lines.size(), 8u);
  EXPECT_EQ(chart.lines[0].name, "sample: window");
  EXPECT_EQ(chart.lines[4].name, "other: window");
  EXPECT_EQ(chart.heading[1].substr(0, 7), "tiny-2m");
}

TEST(LossChart, NeedsARowThatOnlyEvicts) {
  ResultFile result = sample_result();
  try {
    loss_chart(std::span(&result, 1));
    FAIL() << "drew nothing";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find("sample: found no row that evicts and does not round"), 0u);
  }
  result.rows[1].config = {{"evict", {{"policy", 3}}}};
  result.rows[2].config = {{"evict", "window"}};
  EXPECT_THROW(loss_chart(std::span(&result, 1)), InputError);
}

TEST(PositionChart, IsTheMeanOfEachBlock) {
  ResultFile result = sample_result();
  Losses losses = sample_losses(result);
  Chart chart = position_chart(std::span(&result, 1), std::span(&losses, 1));
  ASSERT_EQ(chart.lines.size(), result.rows.size());
  EXPECT_TRUE(chart.lines[0].reference);
  EXPECT_FALSE(chart.lines[1].reference);
  ASSERT_EQ(chart.lines[1].points.size(), 16u);
  EXPECT_EQ(chart.lines[1].points[0].x, 1024 + 31.5);
  EXPECT_EQ(chart.lines[1].points[15].x, 2047 - 31.5);
  EXPECT_NEAR(chart.lines[1].points[0].y, 4.957 - 0.5 + 0.5 / 16, 1e-9);
  EXPECT_NEAR(chart.lines[1].points[15].y, 4.957 + 0.5 - 0.5 / 16, 1e-9);
  EXPECT_NE(chart.x_label.find("blocks of 64"), std::string::npos);
}

TEST(PositionChart, BlocksCoverTheScoredPartAsEvenlyAsCanBe) {
  ResultFile result = sample_result();
  result.length = 20, result.scored = 11;
  std::vector<PositionBlock> blocks = position_blocks(result, 4);
  ASSERT_EQ(blocks.size(), 4u);
  int64_t next = 9;
  for (const PositionBlock& block : blocks) {
    EXPECT_EQ(block.first, next);
    next = block.last + 1;
    EXPECT_GE(next - block.first, 2);
    EXPECT_LE(next - block.first, 3);
  }
  EXPECT_EQ(next, 20);
  EXPECT_EQ(position_blocks(result, 100).size(), 11u);
}

TEST(KeysChart, LeavesOutABiasThatIsNotThere) {
  ResultFile result = sample_result();
  EXPECT_THROW(keys_chart(std::span(&result, 1)), InputError);
  result.key_statistics =
      key_statistics_to_json(std::vector<KeyStatistics>{{0, 130, 243.7, 4.4, 0.4}, {1, 0, 11.8, 11.8, 0.75}});
  Chart chart = keys_chart(std::span(&result, 1));
  ASSERT_EQ(chart.lines.size(), 4u);
  EXPECT_EQ(chart.lines[0].points[0].y, 130);
  EXPECT_TRUE(std::isnan(chart.lines[0].points[1].y)) << "no place on a log scale";
  result.key_statistics[0]["largest_bias"] = 0;
  chart = keys_chart(std::span(&result, 1));
  EXPECT_EQ(chart.lines.size(), 2u);
  EXPECT_NE(joined(chart.heading).find("no bias"), std::string::npos);
}

TEST(Gnuplot, StringsAreQuoted) {
  EXPECT_EQ(gnuplot_string("it's \"a\" `b` \\n @c"), R"("it's \"a\" \140b\140 \\n \100c")");
  EXPECT_EQ(gnuplot_string("a\nplot 1\x1b"), R"("a?plot 1?")");
}

TEST(Gnuplot, LinesLookDifferent) {
  Chart chart;
  for (int i = 0; i < 60; ++i) chart.lines.push_back({"line", {{1, 2, {}, {}}}});
  std::string script = gnuplot_script(chart, ImageFormat::svg);
  std::set<std::string> looks;
  for (size_t at = script.find(" pt "); at != std::string::npos; at = script.find(" pt ", at + 1)) {
    looks.insert(script.substr(at, script.find(" lc ", at) - at));
  }
  EXPECT_EQ(looks.size(), 60u) << "by point type and dashes alone";
}

TEST(Gnuplot, DrawsHostileNamesAsTheyAre) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  std::filesystem::path trap = std::filesystem::path(testing::TempDir()) / "kvcost_gnuplot_trap";
  std::filesystem::remove(trap);
  std::string touch = "touch " + trap.string();
  Chart chart;
  chart.heading = {"{/Bold=40 a}_b^c & <i>", "@macro %s %g $1"};
  chart.x_label = "x'; system(\"" + touch + "\") #";
  chart.y_label = "`" + touch + "`";
  chart.x_tics = {{1, "'\n!" + touch}, {2, "\\"}};
  for (std::string name : {"</text><script>alert(1)</script>", "end_of_line", "", "\n!touch x", "窓口 ± é",
                           "\"", "\\", "`1@2\\3\"4"}) {
    chart.lines.push_back({name + "' `" + touch + "`", {{1, 2, 1.5, 2.5}, {2, NAN, {}, {}}}});
  }
  std::string svg = run_gnuplot(gnuplot_script(chart, ImageFormat::svg));
  EXPECT_FALSE(std::filesystem::exists(trap)) << "a name was run as a command";
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  for (const char* part : {"{/Bold=40 a}_b^c &amp; &lt;i>", "`1@2\\3\"4' `touch", "@macro %s %g $1",
                           "&lt;/text>&lt;script>", "窓口 ± é"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_TRUE(run_gnuplot(gnuplot_script(chart, ImageFormat::png)).starts_with("\x89PNG"));
}

TEST(Gnuplot, ErrorsAreOneLine) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  try {
    run_gnuplot("set terminal svg\nplto 1\n");
    FAIL() << "accepted an unknown command";
  } catch (const Failure& error) {
    std::string what = error.what();
    EXPECT_TRUE(what.starts_with("gnuplot failed: ")) << what;
    EXPECT_NE(what.find("invalid command"), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
}

}  // namespace kvcost
