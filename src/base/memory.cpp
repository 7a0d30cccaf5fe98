#include "src/base/memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace kvcost {

void give_back_freed_memory() { malloc_trim(0); }

void forget_peak_memory() {
  give_back_freed_memory();
  std::ofstream("/proc/self/clear_refs") << 5;  // 5: the peak alone
}

int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace kvcost
