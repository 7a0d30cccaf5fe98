#include "src/cache/policy.h"

#include <algorithm>

namespace kvcost {

int64_t Policy::same_until(const CacheShape& shape) const {
  return std::min<int64_t>(capacity(), shape.tokens);
}

}  // namespace kvcost
