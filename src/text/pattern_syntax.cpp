// Tokenizer files write patterns for Oniguruma. What PCRE2 reads the same passes through, the few things it
// reads otherwise are rewritten, the rest is refused: a silently different split would give other ids.
#include <fmt/format.h>

#include <cctype>

#include "src/base/error.h"
#include "src/text/pattern.h"

namespace kvcost {
namespace {

// PCRE2's own \s also holds U+180E, which Unicode no longer calls white space.
constexpr std::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kNoSpaces = R"(\S\x{180E})";
// Alphabetic, marks, decimal digits and connectors; the ranges are the alphabetic symbols (circled letters).
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})"
    R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

class Translator {
 public:
  Translator(std::string_view in, const std::string& where) : in_(in), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) {
      char c = in_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        char_class();
      } else if (c == '(' && (next(1) == '?' || next(1) == '*')) {
        group();
      } else if (c == '{') {
        braces();
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  char next(size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  void copy(size_t n) {
    n = std::min(n, in_.size() - at_);
    out_ += in_.substr(at_, n);
    at_ += n;
  }
  void replace(size_t n, std::string_view with, bool bracket = false) {
    at_ += n;
    out_ += bracket ? fmt::format("[{}]", with) : std::string(with);
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw InputError(fmt::format("{}: unsupported in a pattern at byte {}: {}", where_, at_, what));
  }

  void escape(bool in_class) {
    char c = next(1);
    switch (c) {
      case 's':
        return replace(2, kSpaces, !in_class);
      case 'S':
        return replace(2, kNoSpaces, !in_class);
      case 'w':
        return replace(2, kWord, !in_class);
      case 'W':
        if (in_class) refuse("\\W inside [...]");
        return replace(2, fmt::format("[^{}]", kWord));
      case 'v':
        return replace(2, "\\x{0B}");
      case 'u':
        return unicode_escape(2, 4);
      case 'x':
        if (next(2) == '{') return braced_escape();
        return unicode_escape(2, 2);
      case 'd':
      case 'D':
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return copy(2);
      case 'p':
      case 'P':
        return braced_escape();
      case 'A':
      case 'z':
        if (!in_class) return copy(2);
        break;
      default:
        break;
    }
    auto byte = static_cast<unsigned char>(c);
    if (c == '\0' || byte >= 0x80 || std::isalnum(byte)) refuse("a backslash before this character");
    copy(2);
  }

  /// \p{...} or \x{...}
  void braced_escape() {
    size_t close = in_.find('}', at_);
    if (next(2) != '{' || close == in_.npos) refuse("an escape without its {...}");
    copy(close + 1 - at_);
  }

  void unicode_escape(size_t skip, size_t digits) {
    std::string_view hex = in_.substr(std::min(in_.size(), at_ + skip), digits);
    if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
      refuse(fmt::format("an escape without {} hexadecimal digits", digits));
    if (digits == 2 && hex[0] > '7') refuse("a byte escape above \\x7F");
    replace(skip + digits, fmt::format("\\x{{{}}}", hex));
  }

  void char_class() {
    copy(next(1) == '^' ? 2 : 1);
    if (next(0) == ']') refuse("an empty character class");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        escape(true);
      } else if (in_[at_] == '[') {
        refuse("a class inside a character class");
      } else if (in_[at_] == '&' && next(1) == '&') {
        refuse("&& in a character class");
      } else {
        copy(1);
      }
    }
    if (at_ == in_.size()) refuse("a character class without its end");
    copy(1);
  }

  void group() {  // "(?...", or "(*VERB)", which only PCRE2 knows
    std::string_view rest = in_.substr(at_);
    for (std::string_view open : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"})
      if (rest.starts_with(open)) return copy(open.size());
    if (rest.starts_with("(?i)") && at_ == 0) return copy(4);
    refuse("this kind of (? or (* group");
  }

  void braces() {
    size_t close = in_.find('}', at_);
    std::string_view inside = close == in_.npos ? std::string_view() : in_.substr(at_ + 1, close - at_ - 1);
    if (inside.empty() || inside.find_first_not_of("0123456789,") != inside.npos)
      refuse("a brace that is no repeat count");
    if (inside[0] == ',') refuse("a repeat count without its lower bound");
    if (close + 1 < in_.size() && in_[close + 1] == '+') refuse("'+' after a repeat count");
    copy(inside.size() + 2);
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_syntax(std::string_view oniguruma, const std::string& where) {
  return Translator(oniguruma, where).run();
}

}  // namespace kvcost
