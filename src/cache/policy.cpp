#include "src/cache/policy.h"

#include <algorithm>

namespace kvcost {

int64_t Policy::same_until(const CacheShape& shape) const {
  return std::min<int64_t>(capacity(), shape.tokens);
}

ContentPolicy::ContentPolicy(Knobs& knobs, Protects protects)
    : capacity_(knobs.integer("capacity", 1, kNever)) {
  // One token at least must be free to go, and the newest is safe anyway.
  if (protects.recent) {
    recent_ = knobs.integer("recent", 0, capacity_ - 1, protects.recent_is_half ? capacity_ / 2 : 0);
  }
  if (protects.sinks) {
    sinks_ =
        knobs.integer("sinks", 0, std::max<int64_t>(0, capacity_ - 1 - std::max<int64_t>(1, recent_)), 0);
  }
}

bool ContentPolicy::is_protected(const CacheView& view, int64_t slot) const {
  int64_t position = view.positions[slot];
  if (view.slots() == 1) return false;
  return position < sinks_ || view.query - position < std::max<int64_t>(1, recent_);
}

double ContentPolicy::mean_weight(const CacheView& view, int64_t slot) {
  double sum = 0;
  for (int64_t h = 0; h < view.heads; ++h) sum += view.weights[h * view.weight_stride + slot];
  return sum / static_cast<double>(view.heads);
}

int64_t ContentPolicy::evict(const CacheShape&, const CacheView& view, std::span<const double> memory) const {
  const int64_t numbers = static_cast<int64_t>(memory.size()) / view.slots();
  int64_t best = -1;
  for (int64_t s = 0; s < view.slots(); ++s) {
    if (is_protected(view, s)) continue;
    const double mine = memory[s * numbers];
    if (best < 0 || mine < memory[best * numbers] ||
        (mine == memory[best * numbers] && view.positions[s] < view.positions[best])) {
      best = s;
    }
  }
  return best;
}

}  // namespace kvcost
