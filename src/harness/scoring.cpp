#include "src/harness/scoring.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "src/base/error.h"
#include "src/model/simd.h"

namespace kvcost {
namespace {

/// e^x in float64 for x <= 0, to 1e-15; 0 below -700. No branch and no call, so that loops vectorize.
KVCOST_INLINE double exp_negative(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  double clamped = x < -700.0 ? -700.0 : x;
  double shifted = clamped * std::numbers::log2e + kMagic;
  double n = shifted - kMagic;
  double r = (clamped - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;  // ln 2 in two parts
  double p = 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits, exponent;
  std::memcpy(&bits, &p, 8);
  std::memcpy(&exponent, &shifted, 8);
  bits += exponent << 52;  // the magic's own bits are shifted out
  std::memcpy(&p, &bits, 8);
  return x < -700.0 ? 0.0 : p;
}

KVCOST_MULTIARCH float largest(const float* z, int64_t n) {
  float most = -FLT_MAX;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) most = z[i] > most ? z[i] : most;
  return most;
}

KVCOST_MULTIARCH bool all_finite(const float* z, int64_t n) {
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (int64_t i = 0; i < n; ++i) bad |= !(std::fabs(z[i]) <= FLT_MAX);
  return bad == 0;
}

KVCOST_MULTIARCH double sum_exp(const float* z, int64_t n, double most) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += exp_negative(static_cast<double>(z[i]) - most);
  return sum;
}

/// Sum of p * (z_full - z_row), p = e^(z_full - log_sum).
KVCOST_MULTIARCH double weighted_difference(const float* full, const float* row, int64_t n, double log_sum) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    double z = full[i];
    sum += exp_negative(z - log_sum) * (z - static_cast<double>(row[i]));
  }
  return sum;
}

/// One position's log-sum-exp and largest logit, chunk after chunk.
struct Running {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  int64_t top1 = 0;
  double target = 0;      ///< the true token's logit
  double difference = 0;  ///< sum of p_full * (z_full - z_row)

  void add(const float* z, int64_t first, int64_t n, int32_t true_token) {
    if (!all_finite(z, n)) {
      sum = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    double here = largest(z, n);
    if (here > most) {
      top1 = first + (std::find(z, z + n, static_cast<float>(here)) - z);
      sum = sum == 0 ? 0 : sum * std::exp(most - here);
      most = here;
    }
    sum += sum_exp(z, n, most);
    if (true_token >= first && true_token < first + n) target = z[true_token - first];
  }
  double log_sum() const { return most + std::log(sum); }
  double loss_bits() const { return (log_sum() - target) / std::numbers::ln2; }
};

/// Calls each(chunk, first, logits [positions, width]) for every chunk; `keep` holds the chunks if given.
template <class Each>
void every_chunk(const LogitsFunction& logits, int64_t vocabulary, int64_t positions,
                 std::vector<at::Tensor>* keep, Each&& each) {
  at::Tensor buffer;
  for (int64_t first = 0, chunk = 0; first < vocabulary; first += kVocabularyChunk, ++chunk) {
    int64_t last = std::min(vocabulary, first + kVocabularyChunk);
    if (keep != nullptr || !buffer.defined() || buffer.size(1) != last - first) {
      buffer = at::empty({positions, last - first}, at::kFloat);
    }
    logits(first, last, buffer);
    if (keep != nullptr) keep->push_back(buffer);
    each(chunk, first, buffer);
  }
}

/// The full cache's side of a comparison; rows of its chunks before `skip` are passed over.
struct Reference {
  const std::vector<at::Tensor>& chunks;
  std::span<const double> log_sum;  ///< after `skip`
  int64_t skip = 0;
};

std::vector<Running> run(const LogitsFunction& logits, int64_t vocabulary, std::span<const int32_t> targets,
                         std::vector<at::Tensor>* keep, const Reference* reference) {
  auto positions = static_cast<int64_t>(targets.size());
  std::vector<Running> running(targets.size());
  every_chunk(logits, vocabulary, positions, keep, [&](int64_t chunk, int64_t first, const at::Tensor& z) {
    int64_t width = z.size(1);
    const float* row = z.const_data_ptr<float>();
    const float* full = nullptr;
    if (reference != nullptr) {
      full = reference->chunks[chunk].const_data_ptr<float>() + reference->skip * width;
    }
    at::parallel_for(0, positions, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        running[i].add(row + i * width, first, width, targets[i]);
        if (full == nullptr) continue;
        running[i].difference +=
            weighted_difference(full + i * width, row + i * width, width, reference->log_sum[i]);
      }
    });
  });
  for (const Running& position : running) {
    if (!std::isfinite(position.log_sum()))
      throw Failure("the output layer: NaN or infinity among the logits");
  }
  return running;
}

}  // namespace

FullDistribution::FullDistribution(const LogitsFunction& logits, int64_t vocabulary,
                                   std::span<const int32_t> targets)
    : targets_(targets.begin(), targets.end()), vocabulary_(vocabulary) {
  for (const Running& position : run(logits, vocabulary, targets, &chunks_, nullptr)) {
    log_sum_.push_back(position.log_sum());
    loss_bits_.push_back(position.loss_bits());
    top1_.push_back(position.top1);
  }
}

void FullDistribution::fill(Unit& unit) const {
  unit.loss_bits = loss_bits_;
  unit.kl_bits.assign(targets_.size(), 0.0);
  unit.true_probability_change.assign(targets_.size(), 0.0);
  unit.top1_agrees.assign(targets_.size(), 1);
}

void FullDistribution::compare(const LogitsFunction& logits, int64_t same, Unit& unit) const {
  fill(unit);
  auto skip = static_cast<size_t>(same);
  Reference reference{chunks_, std::span(log_sum_).subspan(skip), same};
  auto running = run(logits, vocabulary_, std::span(targets_).subspan(skip), nullptr, &reference);
  for (size_t i = skip; i < targets_.size(); ++i) {
    const Running& row = running[i - skip];
    // sum p log(p/q) = sum p (z_full - z_row) - (log_sum_full - log_sum_row)
    double kl = row.difference - (log_sum_[i] - row.log_sum());
    unit.loss_bits[i] = row.loss_bits();
    unit.kl_bits[i] = std::max(0.0, kl / std::numbers::ln2);
    unit.true_probability_change[i] = std::exp2(-row.loss_bits()) - std::exp2(-loss_bits_[i]);
    unit.top1_agrees[i] = row.top1 == top1_[i];
  }
}

std::vector<double> losses_bits(const LogitsFunction& logits, int64_t vocabulary,
                                std::span<const int32_t> targets) {
  return score_answer(logits, vocabulary, targets).loss_bits;
}

AnswerScores score_answer(const LogitsFunction& logits, int64_t vocabulary,
                          std::span<const int32_t> targets) {
  AnswerScores scores;
  for (const Running& position : run(logits, vocabulary, targets, nullptr, nullptr)) {
    scores.is_top1.push_back(position.top1 == targets[scores.loss_bits.size()]);
    scores.loss_bits.push_back(position.loss_bits());
  }
  return scores;
}

}  // namespace kvcost
