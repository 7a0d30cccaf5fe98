#pragma once
#include <string>
#include <string_view>

namespace kvcost {

/// A name taken from a file, safe in a one-line error: printable and at most 120 characters.
inline std::string printable(std::string_view name) {
  std::string out;
  for (char c : name.substr(0, 120)) out += (c >= ' ' && c != 127) ? c : '?';
  return name.size() > 120 ? out + "..." : out;
}

}  // namespace kvcost
