#pragma once
#include <cstdint>

namespace kvcost {

/// SplitMix64: a published 64-bit mixer, so that drawn numbers are the same on every machine.
inline uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace kvcost
