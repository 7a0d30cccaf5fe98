#include "src/harness/recall_assemble.h"

#include <gtest/gtest.h>

namespace kvcost {
namespace {

/// Two numbers at two depths; first answers of one token, follow-ups of two.
std::vector<RecallCase> cases() {
  std::vector<RecallCase> made;
  for (int i = 0; i < 4; ++i) {
    RecallCase of;
    of.number = i / 2, of.depth = static_cast<size_t>(i % 2);
    of.context_end = 100 + i;
    of.first.question_end = 110 + i, of.first.answer_begin = 115, of.first.answer_end = 116;
    of.follow_up.question_end = 130 + i, of.follow_up.answer_begin = 135, of.follow_up.answer_end = 137;
    made.push_back(of);
  }
  return made;
}

Unit unit(std::vector<double> losses, std::vector<uint8_t> top1, double kept) {
  Unit made;
  made.loss_bits = std::move(losses), made.is_top1 = std::move(top1);
  made.tokens_kept = kept, made.evicted = kept < 50, made.seconds = kept;
  return made;
}

}  // namespace

TEST(RecallAssemble, SumsAnswersAndTakesCasesAsTheUnit) {
  const auto of = cases();
  const std::vector<Unit> full = {unit({1, 1, 1}, {1, 1, 1}, 100), unit({2, 1, 0}, {1, 1, 1}, 101),
                                  unit({0, 2, 2}, {1, 1, 0}, 102), unit({1, 0, 0}, {0, 1, 1}, 103)};
  const std::vector<Unit> row = {unit({2, 2, 3}, {1, 0, 1}, 40), unit({2, 1, 1}, {1, 1, 1}, 40),
                                 unit({4, 2, 4}, {0, 1, 1}, 44), unit({3, 3, 3}, {0, 0, 0}, 44)};
  const RecallCell cell = assemble_cell("first", of, row, full);
  EXPECT_EQ(cell.decided, "first");
  EXPECT_EQ(cell.tokens_kept, 42);
  EXPECT_EQ(cell.seconds, 42);
  EXPECT_EQ(cell.prompt_tokens, 111.5);
  EXPECT_FALSE(cell.no_effect);
  ASSERT_TRUE(cell.first.has_value());
  EXPECT_EQ(cell.first->loss_bits, (2 + 2 + 4 + 3) / 4.0);
  EXPECT_EQ(cell.first->recalled, 0.5);
  // Follow-ups: 5, 2 | 6, 6 against 2, 1 | 4, 0: per case 2 and 4, so 3 ± 12.706 (t of 1 degree) * 1.
  EXPECT_EQ(cell.follow_up.loss_bits, 19 / 4.0);
  EXPECT_EQ(cell.follow_up.recalled, 0.5);
  EXPECT_EQ(cell.follow_up.delta_bits.mean, 3);
  EXPECT_NEAR(*cell.follow_up.delta_bits.low, 3 - 12.7062047, 1e-6);
  EXPECT_NEAR(*cell.follow_up.delta_bits.high, 3 + 12.7062047, 1e-6);
  // All tokens must be rank 1: row 0, 1, 1, 0; full 1, 1, 0, 1.
  EXPECT_EQ(cell.follow_up.recalled_delta.mean, -0.25);
  ASSERT_EQ(cell.follow_up_by_depth.size(), 2u);
  EXPECT_EQ(cell.follow_up_by_depth[0].loss_bits, 5.5);
  EXPECT_EQ(cell.follow_up_by_depth[0].delta_bits.mean, 2.5);
  EXPECT_EQ(cell.follow_up_by_depth[1].delta_bits.mean, 3.5);
  EXPECT_EQ(cell.follow_up_by_depth[1].recalled, 0.5);

  EXPECT_FALSE(assemble_cell("both", of, row, full).first.has_value());
  EXPECT_TRUE(assemble_cell("both", of, full, full).no_effect);
  EXPECT_EQ(assemble_cell("", of, full, full).follow_up.delta_bits.mean, 0);
  EXPECT_EQ(follow_up_price(of, row, full).mean, 3);
}

TEST(RecallAssemble, OneCaseHasNoInterval) {
  auto of = cases();
  of.resize(2);
  const std::vector<Unit> full = {unit({1, 1, 1}, {1, 1, 1}, 100), unit({2, 1, 0}, {1, 1, 1}, 101)};
  EXPECT_FALSE(assemble_cell("", of, full, full).follow_up.delta_bits.low.has_value());
}

}  // namespace kvcost
