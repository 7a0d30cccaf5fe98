#pragma once
#include <cstdint>

namespace kvcost {

/// What was freed in small pieces goes back to the system.
void give_back_freed_memory();

/// Starts anew what peak_memory_bytes() tells of this process, and gives memory that was freed back first.
/// Where the kernel does not allow that, the peak goes on from the process's beginning: an upper bound.
void forget_peak_memory();

/// Most memory that was resident at once, in bytes, shared pages included; 0 if the kernel does not tell.
int64_t peak_memory_bytes();

}  // namespace kvcost
