// base/: what every room may use: errors, files, hashing, progress. Knows nothing of models or caches.
#pragma once
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvcost {

/// Bad usage or input: one line that names the thing, what was found and what was expected. Exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Something that should have worked did not (disk full, NaN in a layer). Exit code 1.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The entry of `valid` closest to `found` by edit distance; empty if none is close.
std::string nearest(std::string_view found, std::span<const std::string> valid);

/// ", did you mean 'X'?" for the nearest valid name, or ", expected one of a, b, c".
std::string hint(std::string_view found, std::span<const std::string> valid);

}  // namespace kvcost
