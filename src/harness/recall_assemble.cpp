#include "src/harness/recall_assemble.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "src/harness/statistics.h"

namespace kvcost {
namespace {

/// [numbers][depths]: cases of one number share text and facts, so they are one unit of the interval.
using ByCase = std::vector<std::vector<double>>;

struct Answers {
  ByCase loss_bits, recalled;
};

Answers answers_of(std::span<const RecallCase> cases, std::span<const Unit> units, bool follow_up,
                   std::optional<size_t> depth) {
  Answers answers;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (depth && cases[i].depth != *depth) continue;
    if (answers.loss_bits.size() <= static_cast<size_t>(cases[i].number)) {
      answers.loss_bits.emplace_back();
      answers.recalled.emplace_back();
    }
    const RecallQuestion &first = cases[i].first, &second = cases[i].follow_up;
    const auto split = first.answer_end - first.answer_begin;
    const auto count = follow_up ? second.answer_end - second.answer_begin : split;
    const auto losses = units[i].loss_bits.begin() + (follow_up ? split : 0);
    const auto top1 = units[i].is_top1.begin() + (follow_up ? split : 0);
    answers.loss_bits.back().push_back(std::accumulate(losses, losses + count, 0.0));
    answers.recalled.back().push_back(std::all_of(top1, top1 + count, [](uint8_t is) { return is != 0; }));
  }
  return answers;
}

double mean_of(const ByCase& values) {
  std::vector<double> means;
  for (const auto& of : values) means.push_back(mean(of));
  return mean(means);
}

CaseMean paired(const ByCase& row, const ByCase& full) {
  const PairedDifference difference = paired_difference(row, full);
  return {difference.mean, difference.low, difference.high};
}

RecallScore score_of(std::span<const RecallCase> cases, std::span<const Unit> row, std::span<const Unit> full,
                     bool follow_up, std::optional<size_t> depth = {}) {
  const Answers mine = answers_of(cases, row, follow_up, depth),
                theirs = answers_of(cases, full, follow_up, depth);
  return {mean_of(mine.loss_bits), mean_of(mine.recalled), paired(mine.loss_bits, theirs.loss_bits),
          paired(mine.recalled, theirs.recalled)};
}

}  // namespace

RecallCell assemble_cell(const std::string& decided, std::span<const RecallCase> cases,
                         std::span<const Unit> row, std::span<const Unit> full) {
  RecallCell cell;
  cell.decided = decided;
  if (decided != "both") cell.first = score_of(cases, row, full, false);
  cell.follow_up = score_of(cases, row, full, true);
  size_t depths = 0;
  for (const RecallCase& of : cases) depths = std::max(depths, of.depth + 1);
  for (size_t d = 0; d < depths; ++d) {
    cell.follow_up_by_depth.push_back(score_of(cases, row, full, true, d));
  }
  std::vector<double> kept, seconds, prompt;
  cell.no_effect = true;
  for (size_t i = 0; i < cases.size(); ++i) {
    kept.push_back(row[i].tokens_kept);
    seconds.push_back(row[i].seconds);
    prompt.push_back(static_cast<double>(prompt_of(cases[i], decided)));
    cell.no_effect = cell.no_effect && !row[i].evicted && !row[i].changed;
  }
  cell.tokens_kept = mean(kept), cell.seconds = mean(seconds), cell.prompt_tokens = mean(prompt);
  return cell;
}

CaseMean follow_up_price(std::span<const RecallCase> cases, std::span<const Unit> early,
                         std::span<const Unit> late) {
  return paired(answers_of(cases, early, true, {}).loss_bits, answers_of(cases, late, true, {}).loss_bits);
}

}  // namespace kvcost
