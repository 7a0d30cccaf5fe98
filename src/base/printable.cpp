#include "src/base/printable.h"

#include <utf8proc.h>

#include <algorithm>

namespace kvcost {
namespace {

constexpr size_t kMostBytes = 200;

bool moves_or_reverses(utf8proc_int32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x2028 || point == 0x2029 ||
         (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (out.size() >= kMostBytes) return out + "...";
    utf8proc_int32_t point = 0;
    utf8proc_ssize_t read = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                             static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (read <= 0 || moves_or_reverses(point)) {
      out += '?';
    } else {
      out.append(text, at, static_cast<size_t>(read));
    }
    at += static_cast<size_t>(std::max<utf8proc_ssize_t>(read, 1));
  }
  return out;
}

}  // namespace kvcost
