#include "src/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "src/base/error.h"
#include "src/text/utf8.h"

namespace kvcost {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

constexpr size_t kLongestPattern = 20000;
// Published patterns need a few thousand steps for a match; a hostile one stops here after a second or so.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kJitStackBytes = size_t{4} << 20;

/// What a thread needs to match with; costly to make, so kept.
struct Scratch {
  std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>> match{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)};
  Scratch() {
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_depth_limit(context.get(), 100'000);
    pcre2_set_heap_limit(context.get(), 64 * 1024);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return fmt::format("PCRE2 error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data() ? text.data() : "");
}

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, Freer<pcre2_code_free>> code;
};

Pattern::Pattern(std::string_view oniguruma, const std::string& where)
    : compiled_(std::make_unique<Compiled>()) {
  if (oniguruma.size() > kLongestPattern)
    throw InputError(fmt::format("{}: a pattern of {} bytes, expected at most {}", where, oniguruma.size(),
                                 kLongestPattern));
  std::string pattern = pcre2_syntax(oniguruma, where);
  std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 50);
  int error = 0;
  size_t offset = 0;
  // Ruby's ^ and $ are those of lines.
  compiled_->code.reset(pcre2_compile(units(pattern), pattern.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                      &error, &offset, context.get()));
  if (!compiled_->code)
    throw InputError(fmt::format("{}: the pattern does not compile: {} (at byte {})", where,
                                 pcre2_message(error), offset));
  // Without JIT (a hardened kernel, an odd processor) the interpreter gives the same matches, slower.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

void Pattern::find(std::string_view text, std::vector<Span>& spans) const {
  thread_local Scratch scratch;
  size_t covered = 0, from = 0;
  bool any = false;
  while (from <= text.size()) {
    int count = pcre2_match(compiled_->code.get(), units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                            scratch.match.get(), scratch.context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      throw InputError(
          fmt::format("the tokenizer's split pattern fails at byte {}: {}", from, pcre2_message(count)));
    const size_t* ends = pcre2_get_ovector_pointer(scratch.match.get());
    size_t begin = ends[0], end = ends[1];
    // As Oniguruma's iterator: an empty match right after the last match is passed over.
    if (begin == end && any && begin == covered) {
      if (from >= text.size()) break;
      size_t next = from;
      next_code_point(text, next);
      from = next;
      continue;
    }
    if (begin > covered) spans.push_back({covered, begin, false});
    spans.push_back({begin, end, true});
    covered = from = end;
    any = true;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
}

}  // namespace kvcost
