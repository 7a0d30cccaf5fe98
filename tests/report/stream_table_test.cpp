#include "src/report/stream_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "src/report/layout.h"
#include "src/report/stream_blocks.h"
#include "src/report/stream_chart.h"
#include "tests/support/sample_stream.h"

namespace kvcost {
namespace {

std::vector<std::pair<size_t, size_t>> pairs(const std::vector<BlockSpan>& spans) {
  std::vector<std::pair<size_t, size_t>> out;
  for (const BlockSpan& span : spans) out.emplace_back(span.first, span.last);
  return out;
}

StreamResult of_length(int64_t tokens) {
  StreamResult result;
  result.tokens = tokens, result.block_tokens = 1024;
  return result;
}

}  // namespace

TEST(StreamBlocks, DoubleAndCoverTheText) {
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(pairs(doubling_spans(of_length(65536), 6)),
            (Pairs{{0, 2}, {2, 4}, {4, 8}, {8, 16}, {16, 32}, {32, 64}}));
  EXPECT_EQ(pairs(doubling_spans(of_length(3000), 6)), (Pairs{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(pairs(doubling_spans(of_length(2), 6)), (Pairs{{0, 1}}));
  EXPECT_EQ(pairs(split_doublings(of_length(16384), 4)), (Pairs{{0, 1},
                                                                {1, 2},
                                                                {2, 3},
                                                                {3, 4},
                                                                {4, 5},
                                                                {5, 6},
                                                                {6, 7},
                                                                {7, 8},
                                                                {8, 10},
                                                                {10, 12},
                                                                {12, 14},
                                                                {14, 16}}));
  for (int64_t tokens : {2, 1024, 1025, 9000, 65537, 1000000}) {
    for (const auto& spans : {doubling_spans(of_length(tokens), 6), split_doublings(of_length(tokens), 4)}) {
      size_t next = 0;
      for (const BlockSpan& span : spans) {
        EXPECT_EQ(span.first, next);
        EXPECT_GT(span.last, span.first);
        next = span.last;
      }
      EXPECT_EQ(next, static_cast<size_t>((tokens + 1023) / 1024));
    }
  }
  EXPECT_EQ(span_name(of_length(60000), {32, 64}), "32k-60,000");
  EXPECT_EQ(span_name(of_length(65536), {0, 2}), "0-2k");
}

// From the blocks' means and deviations as from the losses themselves.
TEST(StreamBlocks, PoolAsIfFromTheTokens) {
  StreamResult result;
  result.tokens = 41, result.block_tokens = 10;
  StreamRow row;
  row.tokens = 41;
  std::minstd_rand random(3);
  std::vector<double> losses(41);
  for (double& loss : losses) loss = static_cast<double>(random() % 1000) / 100;
  auto plain = [&](int64_t first, int64_t last) {
    double sum = 0, squares = 0;
    for (int64_t t = first; t < last; ++t) sum += losses[t];
    const auto n = static_cast<double>(last - first);
    for (int64_t t = first; t < last; ++t) squares += std::pow(losses[t] - sum / n, 2);
    return std::pair(sum / n, std::sqrt(squares / (n - 1)));
  };
  for (int64_t first = 0; first < 41; first += 10) {
    const auto [mean, sd] = plain(std::max<int64_t>(first, 1), std::min<int64_t>(first + 10, 41));
    row.block_loss_bits.push_back(mean);
    row.block_sd_bits.push_back(sd);
  }
  EXPECT_TRUE(std::isnan(row.block_sd_bits[4])) << "a block of one token";
  for (const BlockSpan& span : {BlockSpan{0, 1}, {0, 5}, {1, 3}, {3, 5}}) {
    const auto [mean, sd] = plain(std::max<int64_t>(first_of(result, span), 1), end_of(result, span));
    const auto pooled = span_loss(result, row, span);
    ASSERT_TRUE(pooled.has_value());
    const auto n = static_cast<double>(end_of(result, span) - std::max<int64_t>(first_of(result, span), 1));
    EXPECT_NEAR(pooled->loss.mean, mean, 1e-12);
    EXPECT_NEAR(pooled->loss.standard_error, sd / std::sqrt(n), 1e-12);
    EXPECT_TRUE(pooled->whole);
  }
}

TEST(StreamTable, LaysOutPositions) {
  const StreamResult result = sample_stream();
  EXPECT_EQ(stream_table(std::span(&result, 1), TableFormat::text),
            R"(m, fp32: 4,000 tokens as one text; trained on 2,000 tokens
loss by position            0-1,000   1,000-2,000   2,000-4,000
full cache              4.000 ±.063   3.750 ±.089|            -
original positions
  window                5.000 ±.063   6.500 ±.063   8.750 ±.048
  sinks, 4              4.250 ±.063   4.375 ±.063   4.562 ±.045
renumbered positions
  sinks, 4, renumbered  4.250 ±.063   4.250 ±.063   4.250 ±.045

                 positions    past 2,000   less full cache    95% interval  kept  cache MiB  peak MiB   s/1k
full cache        original             -                 -               -   750        3.0       700  27.31
original positions
  window          original  11.000 ±.062  (+1.500 ± 0.031)  +1.250..+1.750   256        3.0       700  10.24
  sinks, 4        original   4.750 ±.062  (+0.250 ± 0.031)  +0.000..+0.500   256        3.0       700  10.24
renumbered positions
  sinks, 4,
    renumbered  renumbered   4.250 ±.062  (+0.250 ± 0.031)               -   256        3.0       700  10.24

past 2,000, renumbered less original      (delta ± se)    95% interval
  sinks, 4, renumbered less sinks, 4  (-0.375 ± 0.031)  -0.625..-0.125
loss: bits per token, ± standard error (tokens taken as independent); position: the token's, k = 1,024
full cache has no bound and ends at 1,500 tokens
| the row ends inside the block
less full cache: paired on the tokens before 1,500, where the full cache ends; beyond it losses stand alone
95% interval: over blocks of 1,000 tokens
renumbered: a query and its keys are at 0, 1, 2... among the tokens kept; kept: tokens a query reads
cache: held at the end, fp32; peak: resident during the row, weights included; s/1k: seconds a 1,024 tokens
)");
}

TEST(StreamTable, StaysInsideALine) {
  StreamResult result = sample_stream();
  result.tokens = 65536, result.block_tokens = 1024, result.trained_tokens = 8192;
  for (StreamRow& row : result.rows) {
    row.tokens = 65536;
    row.block_loss_bits.assign(64, 12.3456);
    row.block_sd_bits.assign(64, 3.5);
    row.name += " and a policy of many words and then some";
    row.seconds = 1234;
  }
  for (int64_t documents : {1, 12}) {
    result.documents = documents;
    std::istringstream text(stream_table(std::span(&result, 1), TableFormat::text));
    for (std::string line; std::getline(text, line);) EXPECT_LE(display_width(line), kWidestLine) << line;
  }
}

TEST(StreamTable, CsvHasOneLineARow) {
  const std::vector<StreamResult> results = {sample_stream(), sample_stream()};
  const std::string csv = stream_table(results, TableFormat::csv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  EXPECT_EQ(csv.substr(0, 29), "name,section,row_config,renum");
  EXPECT_NE(stream_table(results, TableFormat::text).find("sample\nm, fp32: "), std::string::npos)
      << "several are named";
  const auto json = nlohmann::json::parse(stream_table(results, TableFormat::json));
  EXPECT_EQ(json.size(), 2u);
  EXPECT_EQ(parse_stream_result(json[1].dump(), "again").rows.size(), 4u);
}

TEST(StreamChart, PointsLieInTheMiddleOfTheirBlocks) {
  const Chart chart = stream_chart(sample_stream());
  ASSERT_EQ(chart.lines.size(), 4u);
  EXPECT_TRUE(chart.log_x);
  EXPECT_TRUE(chart.lines[0].reference);
  ASSERT_EQ(chart.lines[0].points.size(), 2u) << "the full cache ends at its limit";
  EXPECT_EQ(chart.lines[0].points[1].x, 1250);
  EXPECT_EQ(chart.lines[0].points[1].y, 3.75);
  ASSERT_EQ(chart.lines[1].points.size(), 4u);
  EXPECT_EQ(chart.lines[1].points[0].x, 500);
  EXPECT_EQ(chart.lines[1].points[3].y, 9.5);
  ASSERT_EQ(chart.x_marks.size(), 1u);
  EXPECT_EQ(chart.x_marks[0].at, 2000);
  EXPECT_NE(gnuplot_script(chart, ImageFormat::svg).find("set arrow from first 2000, graph 0"),
            std::string::npos);
}

}  // namespace kvcost
