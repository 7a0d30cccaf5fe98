#include "src/cache/policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/model/simd.h"

namespace kvcost {
namespace {

constexpr int64_t kBlock = 64;

KVCOST_MULTIARCH void add_mean_rows(const float* rows, int64_t heads, int64_t stride, int64_t slots,
                                    double* to) {
  for (int64_t begin = 0; begin < slots; begin += kBlock) {
    const int64_t count = std::min(kBlock, slots - begin);
    double sum[kBlock] = {};
    for (int64_t h = 0; h < heads; ++h) {
      const float* row = rows + h * stride + begin;
      for (int64_t s = 0; s < count; ++s) sum[s] += static_cast<double>(row[s]);
    }
    for (int64_t s = 0; s < count; ++s) to[begin + s] += sum[s] / static_cast<double>(heads);
  }
}

/// The token with the smallest score, the oldest of equals, and how many have that score.
struct Smallest {
  int32_t position = kNever, equals = 0;
};

/// Among tokens at positions first .. last; kNever if there is none.
KVCOST_MULTIARCH Smallest smallest(const double* scores, const int32_t* positions, int64_t slots,
                                   int32_t first, int32_t last) {
  double least = std::numeric_limits<double>::infinity();
#pragma omp simd reduction(min : least)
  for (int64_t s = 0; s < slots; ++s) {
    const bool free = (positions[s] >= first) & (positions[s] <= last);
    const double score = free ? scores[s] : std::numeric_limits<double>::infinity();
    least = score < least ? score : least;
  }
  int32_t oldest = kNever, equals = 0;
#pragma omp simd reduction(min : oldest) reduction(+ : equals)
  for (int64_t s = 0; s < slots; ++s) {
    // Not "==": scores that are not numbers have no smallest one, and the oldest goes.
    const bool best = (positions[s] >= first) & (positions[s] <= last) & !(scores[s] > least);
    const int32_t position = best ? positions[s] : kNever;
    oldest = position < oldest ? position : oldest;
    equals += best ? 1 : 0;
  }
  return {oldest, equals};
}

}  // namespace

int64_t Policy::same_until(const CacheShape& shape) const {
  return std::min<int64_t>(capacity(), shape.tokens);
}

int64_t Policy::tokens_held(const CacheShape& shape) const {
  return std::min<int64_t>(capacity(), shape.tokens);
}

ContentPolicy::ContentPolicy(Knobs& knobs, Recent recent) : capacity_(knobs.integer("capacity", 1, kNever)) {
  // One token at least must be free to go, and the newest is safe anyway.
  recent_ = knobs.integer("recent", 0, capacity_ - 1, recent == Recent::half ? capacity_ / 2 : 0);
  sinks_ = knobs.integer("sinks", 0, std::max<int64_t>(0, capacity_ - 1 - std::max<int64_t>(1, recent_)), 0);
}

int64_t ContentPolicy::same_until(const CacheShape& shape) const {
  return reads_weights() ? 0 : std::min(capacity_ - 1, shape.tokens);
}

bool ContentPolicy::is_protected(const CacheView& view, int64_t slot) const {
  int64_t position = view.positions[slot];
  if (view.slots() == 1) return false;
  return position < sinks_ || view.query - position < std::max<int64_t>(1, recent_);
}

void ContentPolicy::add_mean_weights(const CacheView& view, std::span<double> to) {
  add_mean_rows(view.weights, view.heads, view.stride, view.slots(), to.data());
}

int64_t ContentPolicy::evict(const CacheShape&, const CacheView& view, std::span<const double> memory) const {
  if (view.slots() == 1) return 0;
  const Smallest goes =
      smallest(memory.data(), view.positions.data(), view.slots(), static_cast<int32_t>(sinks_),
               static_cast<int32_t>(view.query - std::max<int64_t>(1, recent_)));
  if (view.ties != nullptr) ++view.ties->evictions, view.ties->tied += goes.equals > 1;
  return std::find(view.positions.begin(), view.positions.end(), goes.position) - view.positions.begin();
}

void IntervalPolicy::drop_smallest(std::span<const double> scores, int64_t count, std::span<uint8_t> kept,
                                   TieCount* ties) {
  struct Candidate {
    double score;
    int64_t token;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : token < other.token;
    }
  };
  std::vector<Candidate> all;
  for (size_t j = 0; j < kept.size(); ++j) {
    // What is not a number has no place in an order.
    const double score = std::isnan(scores[j]) ? -std::numeric_limits<double>::infinity() : scores[j];
    if (kept[j] != 0) all.push_back({score, static_cast<int64_t>(j)});
  }
  if (count <= 0) return;
  const auto end = all.begin() + std::min<int64_t>(count, static_cast<int64_t>(all.size()));
  std::partial_sort(all.begin(), end, all.end());
  for (auto gone = all.begin(); gone != end; ++gone) kept[gone->token] = 0;
  if (ties == nullptr) return;
  ties->evictions += end - all.begin();
  const auto least = std::min_element(end, all.end());
  if (least == all.end()) return;
  ties->tied +=
      std::count_if(all.begin(), end, [&](const Candidate& one) { return one.score == least->score; });
}

}  // namespace kvcost
