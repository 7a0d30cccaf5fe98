#include "src/harness/scoring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/error.h"

namespace kvcost {
namespace {

/// Gives the columns that are asked for out of whole logits, [positions, vocabulary].
LogitsFunction from(const at::Tensor& whole) {
  return [whole](int64_t first, int64_t last, at::Tensor& out) { out.copy_(whole.slice(1, first, last)); };
}

at::Tensor random_logits(int64_t positions, int64_t vocabulary, uint64_t seed, double scale) {
  at::manual_seed(seed);
  return at::randn({positions, vocabulary}, at::kFloat) * scale;
}

std::vector<int32_t> some_targets(int64_t positions, int64_t vocabulary) {
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < positions; ++i)
    targets.push_back(static_cast<int32_t>((i * 7919 + 3) % vocabulary));
  targets[0] = static_cast<int32_t>(vocabulary - 1);
  return targets;
}

double number(const at::Tensor& t, int64_t i) { return t.select(0, i).item<double>(); }

}  // namespace

// Vocabularies below, at and above a chunk; logits small and extreme.
TEST(Scoring, MatchesTheTextbookInFloat64) {
  for (int64_t vocabulary :
       {int64_t{50}, kVocabularyChunk, kVocabularyChunk + 1, 3 * kVocabularyChunk + 77}) {
    for (double scale : {0.1, 3.0, 200.0}) {
      constexpr int64_t kPositions = 37;
      at::Tensor full = random_logits(kPositions, vocabulary, 1, scale);
      at::Tensor row = full + random_logits(kPositions, vocabulary, 2, scale / 5);
      auto targets = some_targets(kPositions, vocabulary);
      FullDistribution distribution(from(full), vocabulary, targets);
      Unit unit;
      distribution.compare(from(row), 0, unit);
      Unit full_unit;
      distribution.fill(full_unit);

      at::Tensor log_p = full.to(at::kDouble).log_softmax(1), log_q = row.to(at::kDouble).log_softmax(1);
      at::Tensor kl = (log_p.exp() * (log_p - log_q)).sum(1) / std::log(2.0);
      at::Tensor agree = full.argmax(1).eq(row.argmax(1));
      auto only_losses = losses_bits(from(row), vocabulary, targets);
      for (int64_t i = 0; i < kPositions; ++i) {
        double p = number(log_p.select(0, i), targets[i]), q = number(log_q.select(0, i), targets[i]);
        double tolerance = 1e-12 * std::max(1.0, -q);
        EXPECT_NEAR(full_unit.loss_bits[i], -p / std::log(2.0), tolerance);
        EXPECT_NEAR(unit.loss_bits[i], -q / std::log(2.0), tolerance);
        EXPECT_EQ(unit.loss_bits[i], only_losses[i]);
        EXPECT_NEAR(unit.kl_bits[i], number(kl, i), 1e-11 * std::max(1.0, scale));
        EXPECT_NEAR(unit.true_probability_change[i], std::exp(q) - std::exp(p), 1e-12);
        EXPECT_EQ(unit.top1_agrees[i] != 0, agree.select(0, i).item<bool>());
      }
      EXPECT_EQ(full_unit.kl_bits, std::vector<double>(kPositions, 0.0));
      EXPECT_EQ(full_unit.top1_agrees, std::vector<uint8_t>(kPositions, 1));
    }
  }
}

TEST(Scoring, PositionsThatAreTheFullCachesAreCopied) {
  constexpr int64_t kPositions = 9, kVocabulary = 4200;
  at::Tensor full = random_logits(kPositions, kVocabulary, 1, 2);
  at::Tensor row = random_logits(kPositions, kVocabulary, 2, 2);
  auto targets = some_targets(kPositions, kVocabulary);
  FullDistribution distribution(from(full), kVocabulary, targets);
  Unit all, tail, own;
  distribution.compare(from(row), 0, all);
  distribution.compare(from(row.slice(0, 4)), 4, tail);
  distribution.fill(own);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Unit& expected = i < 4 ? own : all;
    EXPECT_EQ(tail.loss_bits[i], expected.loss_bits[i]) << i;
    EXPECT_EQ(tail.kl_bits[i], expected.kl_bits[i]);
    EXPECT_EQ(tail.top1_agrees[i], expected.top1_agrees[i]);
    EXPECT_EQ(tail.true_probability_change[i], expected.true_probability_change[i]);
  }
  Unit same;
  distribution.compare(from(full), 0, same);
  EXPECT_EQ(same.loss_bits, own.loss_bits) << "the same logits give the same losses bit for bit";
}

TEST(Scoring, RefusesNanAndInfinityWhereverTheyAre) {
  constexpr int64_t kVocabulary = kVocabularyChunk + 9;
  std::vector<int32_t> targets = {0, 1, 2};
  at::Tensor good = random_logits(3, kVocabulary, 1, 2);
  FullDistribution distribution(from(good), kVocabulary, targets);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (int64_t column :
         {int64_t{0}, int64_t{17}, kVocabularyChunk - 1, kVocabularyChunk, kVocabulary - 1}) {
      at::Tensor logits = good.clone();
      logits.select(0, 1).select(0, column).fill_(bad);
      Unit unit;
      EXPECT_THROW(distribution.compare(from(logits), 0, unit), Failure) << bad << " at " << column;
      EXPECT_THROW(losses_bits(from(logits), kVocabulary, targets), Failure);
    }
  }
}

}  // namespace kvcost
