#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/harness/unit_store.h"

namespace kvcost {

/// Columns of the output matrix that are worked on at a time: [1024, 4096] floats are 16 MB.
inline constexpr int64_t kVocabularyChunk = 4096;

/// Fills `out` [positions, last - first] fp32, contiguous, with logits over rows first .. last - 1 of the
/// output matrix.
using LogitsFunction = std::function<void(int64_t first, int64_t last, at::Tensor& out)>;

/// The full cache's distribution over the next token at every scored position, kept to compare rows with.
class FullDistribution {
 public:
  /// `targets`: the true next tokens, one for each position, below `vocabulary`. Failure on NaN or infinity.
  FullDistribution(const LogitsFunction& logits, int64_t vocabulary, std::span<const int32_t> targets);
  /// The full cache's own unit: no KL, every top-1 agrees.
  void fill(Unit& unit) const;
  /// Losses of a row and its measures against the full cache. The first `same` positions are the full
  /// cache's own; `logits` gives the others'.
  void compare(const LogitsFunction& logits, int64_t same, Unit& unit) const;

 private:
  std::vector<int32_t> targets_;
  int64_t vocabulary_ = 0;
  std::vector<at::Tensor> chunks_;           ///< logits, [positions, kVocabularyChunk], the last one narrower
  std::vector<double> log_sum_, loss_bits_;  ///< [positions]; log_sum_ in nats
  std::vector<int64_t> top1_;
};

/// Losses in bits alone: nothing of the full cache is needed. Float64 log-softmax over all of the vocabulary.
std::vector<double> losses_bits(const LogitsFunction& logits, int64_t vocabulary,
                                std::span<const int32_t> targets);

/// Losses, and whether the true token is the most probable one (the first of equals): what greedy decoding
/// says.
struct AnswerScores {
  std::vector<double> loss_bits;
  std::vector<uint8_t> is_top1;
};
AnswerScores score_answer(const LogitsFunction& logits, int64_t vocabulary, std::span<const int32_t> targets);

}  // namespace kvcost
