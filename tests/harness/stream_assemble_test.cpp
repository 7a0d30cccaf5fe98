#include "src/harness/stream_assemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/model/formats/safetensors.h"

namespace kvcost {
namespace {

Unit unit_of(int64_t tokens, unsigned seed, double level) {
  std::minstd_rand random(seed);
  Unit unit;
  for (int64_t t = 1; t < tokens; ++t) {
    unit.loss_bits.push_back(level + static_cast<double>(random()) / random.max());
  }
  unit.tokens_kept = 12, unit.chunk = 5, unit.cache_bytes = 1000, unit.peak_bytes = 2000, unit.seconds = 3;
  return unit;
}

/// Textbook mean and standard error of the losses of tokens first .. last - 1.
StreamMean plain(const std::vector<double>& losses, int64_t first, int64_t last) {
  double sum = 0, squares = 0;
  for (int64_t t = first; t < last; ++t) sum += losses[t - 1];
  const auto n = static_cast<double>(last - first);
  for (int64_t t = first; t < last; ++t) squares += std::pow(losses[t - 1] - sum / n, 2);
  return {sum / n, std::sqrt(squares / (n - 1) / n)};
}

void expect_same(const StreamMean& a, const StreamMean& b) {
  EXPECT_NEAR(a.mean, b.mean, 1e-12);
  EXPECT_NEAR(a.standard_error, b.standard_error, 1e-12);
}

std::vector<double> difference(const Unit& a, const Unit& b) {
  std::vector<double> out;
  for (size_t i = 0; i < std::min(a.loss_bits.size(), b.loss_bits.size()); ++i) {
    out.push_back(a.loss_bits[i] - b.loss_bits[i]);
  }
  return out;
}

/// 53 tokens, trained on 20, blocks of 8; full cache to 30, a window, sinks twice.
StreamResult four_rows() {
  StreamResult result;
  result.tokens = 53, result.trained_tokens = 20, result.full_limit = 30, result.block_tokens = 8;
  const char* configs[] = {R"({})", R"({"evict": {"policy": "window", "capacity": 9}})",
                           R"({"evict": {"policy": "sinks", "capacity": 9, "positions": "original"}})",
                           R"({"evict": {"policy": "sinks", "capacity": 9, "positions": "cache"}})"};
  for (size_t r = 0; r < 4; ++r) {
    StreamRow row;
    row.name = "row " + std::to_string(r);
    row.config = nlohmann::json::parse(configs[r]);
    row.renumbered = r == 3;
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace

TEST(StreamAssemble, MeansArePlainOnes) {
  StreamResult result = four_rows();
  const std::vector<Unit> units = {unit_of(30, 1, 3), unit_of(53, 2, 9), unit_of(53, 3, 4),
                                   unit_of(53, 4, 3.5)};
  assemble_stream(result, units);
  const StreamRow &full = result.rows[0], &window = result.rows[1], &renumbered = result.rows[3];
  EXPECT_EQ(full.tokens, 30);
  EXPECT_EQ(window.tokens, 53);
  EXPECT_EQ(window.chunk, 5);
  EXPECT_EQ(window.tokens_kept, 12);
  EXPECT_EQ(window.cache_bytes, 1000);
  EXPECT_EQ(window.peak_bytes, 2000);
  EXPECT_EQ(window.seconds, 3);

  ASSERT_EQ(full.block_loss_bits.size(), 4u);
  ASSERT_EQ(window.block_loss_bits.size(), 7u);
  for (int64_t b = 0; b < 7; ++b) {
    const int64_t first = std::max<int64_t>(1, 8 * b), last = std::min<int64_t>(8 * b + 8, 53);
    EXPECT_EQ(result.scored(window, static_cast<size_t>(b)), last - first);
    const StreamMean mean = plain(units[1].loss_bits, first, last);
    EXPECT_NEAR(window.block_loss_bits[b], mean.mean, 1e-12);
    EXPECT_NEAR(window.block_sd_bits[b], mean.standard_error * std::sqrt(double(last - first)), 1e-12);
  }
  ASSERT_TRUE(full.past_trained.has_value()) << "its limit lies beyond what the model was trained on";
  expect_same(*full.past_trained, plain(units[0].loss_bits, 20, 30));
  expect_same(*window.past_trained, plain(units[1].loss_bits, 20, 53));
  EXPECT_FALSE(full.against_full.has_value());
  expect_same(*window.against_full, plain(difference(units[1], units[0]), 1, 30));
  EXPECT_LT(*window.against_full->low, window.against_full->mean);

  EXPECT_FALSE(window.renumbering.has_value());
  EXPECT_FALSE(result.rows[2].renumbering.has_value());
  EXPECT_EQ(renumbered.renumbering_of, "row 2");
  expect_same(*renumbered.renumbering, plain(difference(units[3], units[2]), 20, 53));
  EXPECT_LT(*renumbered.renumbering->high, 0);
}

// Blocks end at multiples of 8; the tokens at 48 .. 52 are more than half of one and stand alone.
TEST(StreamAssemble, TheIntervalIsOverBlocks) {
  StreamResult result = four_rows();
  std::vector<Unit> units(4, unit_of(53, 1, 3));
  const double of_block[] = {0, 0, 1, 2, 4, 3, 5};  // by position / 8
  for (int64_t t = 1; t < 53; ++t) units[3].loss_bits[t - 1] += of_block[t / 8];
  assemble_stream(result, units);
  // Positions 20-23, 24-31, 32-39, 40-47, 48-52.
  const std::vector<double> means = {1, 2, 4, 3, 5};
  double squares = 0;
  for (double m : means) squares += (m - 3) * (m - 3);
  const double half = 2.7764451051977987 * std::sqrt(squares / 4 / 5);  // t(0.975, 4)
  EXPECT_NEAR(*result.rows[3].renumbering->low, 3 - half, 1e-9);
  EXPECT_NEAR(*result.rows[3].renumbering->high, 3 + half, 1e-9);
}

TEST(StreamAssemble, NothingPastTheTrainedLengthWhereThereIsNothing) {
  StreamResult result = four_rows();
  result.trained_tokens = 53;
  const std::vector<Unit> units = {unit_of(2, 1, 3), unit_of(53, 2, 9), unit_of(53, 3, 4), unit_of(53, 4, 4)};
  assemble_stream(result, units);
  EXPECT_FALSE(result.rows[1].past_trained.has_value());
  EXPECT_FALSE(result.rows[3].renumbering.has_value());
  EXPECT_TRUE(std::isnan(result.rows[1].against_full->standard_error)) << "of a single token";
  EXPECT_TRUE(std::isnan(result.rows[0].block_sd_bits[0]));
}

TEST(StreamAssemble, LossesGoIntoOneFile) {
  StreamResult result = four_rows();
  const std::vector<Unit> units = {unit_of(30, 1, 3), unit_of(53, 2, 9), unit_of(53, 3, 4),
                                   unit_of(53, 4, 4)};
  assemble_stream(result, units);
  const auto path = std::filesystem::path(testing::TempDir()) / "kvcost_stream_losses.safetensors";
  write_stream_losses(result, units, path);
  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.names().size(), 4u);
  const std::vector<float> back = file.numbers<float>("row 1");
  ASSERT_EQ(back.size(), 52u);
  for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(back[i], static_cast<float>(units[1].loss_bits[i]));
}

}  // namespace kvcost
