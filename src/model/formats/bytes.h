#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace kvcost {

static_assert(std::endian::native == std::endian::little, "the file formats read here are little-endian");

/// A value at any address, aligned or not.
template <class T>
inline T load(const std::byte* at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// False, leaving `product` unspecified, if a * b does not fit in 63 bits.
inline bool multiply(uint64_t a, uint64_t b, uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product) && product <= static_cast<uint64_t>(INT64_MAX);
}

}  // namespace kvcost
