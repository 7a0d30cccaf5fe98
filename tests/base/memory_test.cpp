#include "src/base/memory.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvcost {

TEST(Memory, ThePeakStaysUntilItIsForgotten) {
  constexpr int64_t kBig = int64_t{64} << 20;
  forget_peak_memory();
  const int64_t before = peak_memory_bytes();
  ASSERT_GT(before, 0);
  {
    auto big = std::make_unique<char[]>(kBig);
    volatile char* pages = big.get();
    for (int64_t i = 0; i < kBig; i += 4096) pages[i] = 1;
  }
  const int64_t peak = peak_memory_bytes();
  EXPECT_GE(peak, before + kBig * 3 / 4) << "memory that is gone counts";
  forget_peak_memory();
  const int64_t after = peak_memory_bytes();
  if (after == peak) GTEST_SKIP() << "this kernel does not let a peak be forgotten";
  EXPECT_LT(after, before + kBig / 4);
}

}  // namespace kvcost
