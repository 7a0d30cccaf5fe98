#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// A stretch of a text that a pattern matched, or one between matches.
struct Span {
  size_t begin, end;
  bool matched;
};

/// A split pattern in the dialect of tokenizer files (Oniguruma's Ruby syntax), run by PCRE2 in UTF mode with
/// Unicode properties. Safe to share between threads.
class Pattern {
 public:
  /// InputError starting with `where` if it does not compile or uses what the two engines read differently.
  Pattern(std::string_view oniguruma, const std::string& where);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  /// Appends spans that cover `text` (valid UTF-8) in order. InputError if matching needs absurd work.
  void find(std::string_view text, std::vector<Span>& spans) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// The same language in PCRE2's syntax; InputError starting with `where` for constructs they read
/// differently.
std::string pcre2_syntax(std::string_view oniguruma, const std::string& where);

}  // namespace kvcost
