#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvcost {

/// The byte offset of the first sequence that is not UTF-8 (overlong forms and surrogates are not).
std::optional<size_t> invalid_utf8(std::string_view text);

/// InputError naming the byte and its offset unless `text` is valid UTF-8.
void require_utf8(std::string_view text);

/// The code point at `at`, which moves past it. `text` must be valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);

void append_utf8(std::string& out, char32_t code_point);

bool is_ascii(std::string_view text);

/// `text` in one of Unicode's normal forms: "NFC", "NFD", "NFKC", "NFKD". `text` must be valid UTF-8.
std::string normal_form(std::string_view text, std::string_view form);

/// General category N (Nd, Nl or No).
bool is_numeric(char32_t code_point);
/// Unicode's White_Space.
bool is_white_space(char32_t code_point);
/// Unicode's \\w: alphabetic, marks, decimal digits, connector punctuation, joiners.
bool is_word_character(char32_t code_point);

}  // namespace kvcost
