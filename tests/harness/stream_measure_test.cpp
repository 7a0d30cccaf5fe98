// A text fed in chunks against a window run whole, by the code that measures windows.
#include "src/harness/stream_measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/harness/measure.h"
#include "src/harness/statistics.h"
#include "tests/support/random_weights.h"

namespace kvcost {
namespace {

using nlohmann::json;

/// Bits. Products of other shapes round in other places: a single token's loss moves more than the mean.
constexpr double kCloseMean = 1e-6, kCloseToken = 5e-5;

std::vector<int32_t> some_ids(int64_t count) {
  std::minstd_rand random(5);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random() % 50));
  return ids;
}

Unit streamed(const Decoder& decoder, const std::vector<int32_t>& ids, const json& row, int64_t chunk) {
  LivingCache cache(row, "rows[0]");
  return measure_stream(decoder, ids, chunk, cache, [](int64_t, double) {});
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_NEAR(mean(a), mean(b), kCloseMean) << what;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], kCloseToken) << what << ", token " << i + 1;
}

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

const json kRows[] = {
    json::object(),
    {{"evict", {{"policy", "window"}, {"capacity", 11}}}},
    {{"evict", {{"policy", "sinks"}, {"capacity", 13}, {"sinks", 3}}}},
    {{"evict", {{"policy", "sinks"}, {"capacity", 13}, {"sinks", 3}, {"positions", "cache"}}}},
    {{"evict", {{"policy", "h2o"}, {"capacity", 12}}}},
    {{"evict", {{"policy", "h2o"}, {"capacity", 12}, {"positions", "cache"}}}},
};

}  // namespace

TEST(StreamMeasure, ChunksDoNotChangeLosses) {
  for (const char* architecture : {"llama", "qwen2"}) {
    RandomWeights weights(tiny_config(architecture));
    Decoder decoder(weights, Dtype::fp32);
    const std::vector<int32_t> ids = some_ids(83);
    for (const json& row : kRows) {
      const Unit whole = streamed(decoder, ids, row, 1000);
      ASSERT_EQ(whole.loss_bits.size(), 82u);
      for (int64_t chunk : {1, 7, 16, 41, 82}) {
        const Unit cut = streamed(decoder, ids, row, chunk);
        expect_close(whole.loss_bits, cut.loss_bits,
                     architecture + (" " + row.dump()) + " in chunks of " + std::to_string(chunk));
        EXPECT_NEAR(whole.tokens_kept, cut.tokens_kept, 1e-9);
        EXPECT_EQ(cut.chunk, chunk);
      }
    }
  }
}

TEST(StreamMeasure, IsTheWindowOfTheSameTokens) {
  for (const char* architecture : {"llama", "qwen3"}) {
    RandomWeights weights(tiny_config(architecture));
    Decoder decoder(weights, Dtype::fp32);
    const std::vector<int32_t> ids = some_ids(67);
    WindowMeasurer window(decoder, ids, 66);
    const Unit full = streamed(decoder, ids, json::object(), 9);
    expect_close(full.loss_bits, window.full().loss_bits, architecture);
    EXPECT_NEAR(full.tokens_kept, window.full().tokens_kept, 1e-9);
    EXPECT_FALSE(full.evicted);
    for (const json& row : kRows) {
      if (!row.contains("evict")) continue;
      RowCache cache(row, "rows[0]");
      const Unit of_window = window.row(cache), of_stream = streamed(decoder, ids, row, 9);
      expect_close(of_stream.loss_bits, of_window.loss_bits, architecture + (" " + row.dump()));
      EXPECT_NEAR(of_stream.tokens_kept, of_window.tokens_kept, 1e-9) << row;
      EXPECT_GT(furthest(of_stream.loss_bits, full.loss_bits), 1e-3) << row << " evicts nothing";
      EXPECT_TRUE(of_stream.evicted);
    }
  }
}

TEST(StreamMeasure, HearsOfEveryChunk) {
  RandomWeights weights(tiny_config("llama"));
  Decoder decoder(weights, Dtype::fp32);
  LivingCache cache(kRows[1], "rows[0]");
  std::vector<int64_t> told;
  double before = 0;
  measure_stream(decoder, some_ids(30), 8, cache, [&](int64_t tokens, double seconds) {
    told.push_back(tokens);
    EXPECT_GE(seconds, before);
    before = seconds;
  });
  EXPECT_EQ(told, (std::vector<int64_t>{8, 16, 24, 29})) << "the last token predicts nothing";
}

TEST(StreamMeasure, CachesStaySmallAndTheFullOneGrows) {
  RandomWeights weights(tiny_config("llama"));
  Decoder decoder(weights, Dtype::fp32);
  for (const json& row : kRows) {
    const int64_t at_100 = streamed(decoder, some_ids(100), row, 16).cache_bytes;
    const int64_t at_400 = streamed(decoder, some_ids(400), row, 16).cache_bytes;
    EXPECT_GT(at_100, 0);
    if (row.contains("evict")) {
      EXPECT_LT(at_400, 2 * at_100) << row;
    } else {
      EXPECT_GT(at_400, 3 * at_100);
    }
  }
}

}  // namespace kvcost
