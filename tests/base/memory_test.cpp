#include "src/base/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace kvcost {

TEST(Memory, ThePeakStaysUntilItIsForgotten) {
  constexpr int64_t kBig = int64_t{64} << 20;
  forget_peak_memory();
  const int64_t before = peak_memory_bytes();
  ASSERT_GT(before, 0);
  // Mapped, not allocated: the sanitizers hold on to what is freed.
  void* big = mmap(nullptr, kBig, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(big, MAP_FAILED);
  auto* pages = static_cast<volatile char*>(big);
  for (int64_t i = 0; i < kBig; i += 4096) pages[i] = 1;
  munmap(big, kBig);
  const int64_t peak = peak_memory_bytes();
  EXPECT_GE(peak, before + kBig * 3 / 4) << "memory that is gone counts";
  forget_peak_memory();
  const int64_t after = peak_memory_bytes();
  if (after == peak) GTEST_SKIP() << "this kernel does not let a peak be forgotten";
  EXPECT_LT(after, before + kBig / 4);
}

}  // namespace kvcost
