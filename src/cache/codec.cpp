#include "src/cache/codec.h"

#include <algorithm>

namespace kvcost {

void Codec::lifetimes(const CacheShape&, int64_t exact_last, std::span<int32_t> rounded_at) const {
  for (size_t j = 0; j < rounded_at.size(); ++j) {
    rounded_at[j] =
        exact_last == 0 ? 0 : static_cast<int32_t>(std::min<int64_t>(kNever, int64_t(j) + exact_last));
  }
}

}  // namespace kvcost
