#include "src/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "src/base/error.h"

namespace kvcost {
namespace {

/// Length of the valid sequence at `at`, 0 if there is none (Unicode's table 3-7).
size_t sequence_length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) -> unsigned { return at + i < text.size() ? uint8_t(text[at + i]) : 0; };
  auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  unsigned lead = byte(0), second = byte(1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    unsigned low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
    return second >= low && second <= high && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    unsigned low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

/// First offset from `at` on whose byte is not ASCII, or the end.
size_t skip_ascii(std::string_view text, size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (at < text.size() && !(text[at] & 0x80)) ++at;
  return at;
}

}  // namespace

std::optional<size_t> invalid_utf8(std::string_view text) {
  for (size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text) {
  if (auto at = invalid_utf8(text))
    throw InputError(
        fmt::format("the text is not valid UTF-8 at byte {} (found 0x{:02X}); convert it to UTF-8", *at,
                    uint8_t(text[*at])));
}

char32_t next_code_point(std::string_view text, size_t& at) {
  auto bits = [&](size_t i) { return char32_t(uint8_t(text[at + i]) & 0x3F); };
  uint8_t lead = text[at];
  char32_t value;
  size_t length;
  if (lead < 0x80) {
    value = lead, length = 1;
  } else if (lead < 0xE0) {
    value = char32_t(lead & 0x1F) << 6 | bits(1), length = 2;
  } else if (lead < 0xF0) {
    value = char32_t(lead & 0x0F) << 12 | bits(1) << 6 | bits(2), length = 3;
  } else {
    value = char32_t(lead & 0x07) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3), length = 4;
  }
  at += length;
  return value;
}

void append_utf8(std::string& out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_ascii(std::string_view text) { return skip_ascii(text, 0) == text.size(); }

std::string normal_form(std::string_view text, std::string_view form) {
  if (is_ascii(text)) return std::string(text);
  int options = UTF8PROC_STABLE | (form.ends_with('C') ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                (form.starts_with("NFK") ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* mapped = nullptr;
  auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                             static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                             static_cast<utf8proc_option_t>(options));
  std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0)
    throw Failure(fmt::format("{} of {} bytes of text: {}", form, text.size(), utf8proc_errmsg(length)));
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(length)};
}

bool is_numeric(char32_t code_point) {
  if (code_point < 0x80) return code_point >= '0' && code_point <= '9';
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_white_space(char32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= '\t' && code_point <= '\r');
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return code_point == 0x85 || (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

bool is_word_character(char32_t code_point) {
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  auto within = [&](char32_t low, char32_t high) { return code_point >= low && code_point <= high; };
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC || within(0x24B6, 0x24E9) || within(0x1F130, 0x1F149) ||
         within(0x1F150, 0x1F169) || within(0x1F170, 0x1F189) || within(0x200C, 0x200D);
}

}  // namespace kvcost
