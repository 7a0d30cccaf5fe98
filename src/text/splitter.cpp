#include "src/text/splitter.h"

#include <algorithm>

#include "src/text/utf8.h"

namespace kvcost {
namespace {

/// Turns spans into the pieces that `behavior` makes of them; all but `removed` cover the text.
void apply(SplitBehavior behavior, std::vector<Span>& spans) {
  std::vector<Span> out;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::isolated:
      return;
    case SplitBehavior::removed:
      std::erase_if(spans, [](const Span& span) { return span.matched; });
      return;
    case SplitBehavior::contiguous:
      for (const Span& span : spans) {
        if (span.matched == previous && !out.empty())
          out.back().end = span.end;
        else
          out.push_back(span);
        previous = span.matched;
      }
      break;
    case SplitBehavior::merged_with_previous:
      for (const Span& span : spans) {
        if (span.matched && !previous && !out.empty())
          out.back().end = span.end;
        else
          out.push_back(span);
        previous = span.matched;
      }
      break;
    case SplitBehavior::merged_with_next:
      for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
        if (span->matched && !previous && !out.empty())
          out.back().begin = span->begin;
        else
          out.push_back(*span);
        previous = span->matched;
      }
      std::reverse(out.begin(), out.end());
      break;
  }
  spans = std::move(out);
}

/// Cuts every piece at the spans that `find(piece, spans)` appends.
template <typename Find>
void cut(Pieces& pieces, SplitBehavior behavior, const Find& find) {
  std::vector<std::string_view> out;
  out.reserve(pieces.list.size() * 2);
  std::vector<Span> spans;
  for (std::string_view piece : pieces.list) {
    spans.clear();
    find(piece, spans);
    apply(behavior, spans);
    for (const Span& span : spans)
      if (span.end > span.begin) out.push_back(piece.substr(span.begin, span.end - span.begin));
  }
  pieces.list = std::move(out);
}

void invert_if(bool invert, std::vector<Span>& spans) {
  if (!invert) return;
  for (Span& span : spans) span.matched = !span.matched;
}

class PatternSplitter : public Splitter {
 public:
  PatternSplitter(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(Pieces& pieces, bool) const override {
    cut(pieces, behavior_, [&](std::string_view piece, std::vector<Span>& spans) {
      pattern_.find(piece, spans);
      invert_if(invert_, spans);
    });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

void find_literal(std::string_view text, std::string_view literal, std::vector<Span>& spans) {
  size_t covered = 0;
  while (!literal.empty()) {
    size_t begin = text.find(literal, covered);
    if (begin == text.npos) break;
    if (begin > covered) spans.push_back({covered, begin, false});
    covered = begin + literal.size();
    spans.push_back({begin, covered, true});
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
}

class LiteralSplitter : public Splitter {
 public:
  LiteralSplitter(std::string literal, SplitBehavior behavior, bool invert)
      : literal_(std::move(literal)), behavior_(behavior), invert_(invert) {}
  void split(Pieces& pieces, bool) const override {
    cut(pieces, behavior_, [&](std::string_view piece, std::vector<Span>& spans) {
      find_literal(piece, literal_, spans);
      invert_if(invert_, spans);
    });
  }

 private:
  std::string literal_;
  SplitBehavior behavior_;
  bool invert_;
};

class DigitSplitter : public Splitter {
 public:
  explicit DigitSplitter(bool individual)
      : behavior_(individual ? SplitBehavior::isolated : SplitBehavior::contiguous) {}
  void split(Pieces& pieces, bool) const override {
    cut(pieces, behavior_, [](std::string_view piece, std::vector<Span>& spans) {
      size_t covered = 0;
      for (size_t at = 0; at < piece.size();) {
        size_t begin = at;
        if (!is_numeric(next_code_point(piece, at))) continue;
        if (begin > covered) spans.push_back({covered, begin, false});
        spans.push_back({begin, at, true});
        covered = at;
      }
      if (covered < piece.size()) spans.push_back({covered, piece.size(), false});
    });
  }

 private:
  SplitBehavior behavior_;
};

class ByteLevelSplitter : public Splitter {
 public:
  ByteLevelSplitter(bool prefix_space, bool gpt2_pattern) : prefix_space_(prefix_space) {
    if (gpt2_pattern)
      pattern_ = split_on_pattern(
          Pattern(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                  "GPT-2's split pattern"),
          SplitBehavior::isolated, false);
  }
  void split(Pieces& pieces, bool opens_text) const override {
    if (prefix_space_)
      for (std::string_view& piece : pieces.list)
        if (!piece.starts_with(' ')) piece = pieces.owned.emplace_back(1, ' ').append(piece);
    if (pattern_) pattern_->split(pieces, opens_text);
  }

 private:
  bool prefix_space_;
  std::unique_ptr<Splitter> pattern_;
};

class MetaspaceSplitter : public Splitter {
 public:
  MetaspaceSplitter(std::string replacement, PrependScheme prepend, bool split)
      : replacement_(std::move(replacement)),
        prepend_(prepend),
        cut_(split ? split_on_literal(replacement_, SplitBehavior::merged_with_next, false) : nullptr) {}

  void split(Pieces& pieces, bool opens_text) const override {
    for (size_t i = 0; i < pieces.list.size(); ++i) {
      std::string text;
      for (char c : pieces.list[i]) c == ' ' ? void(text += replacement_) : text.push_back(c);
      bool wanted =
          prepend_ == PrependScheme::always || (prepend_ == PrependScheme::first && i == 0 && opens_text);
      if (wanted && !text.starts_with(replacement_)) text.insert(0, replacement_);
      pieces.list[i] = pieces.owned.emplace_back(std::move(text));
    }
    if (cut_) cut_->split(pieces, opens_text);
  }

 private:
  std::string replacement_;
  PrependScheme prepend_;
  std::unique_ptr<Splitter> cut_;
};

}  // namespace

std::unique_ptr<Splitter> split_on_pattern(Pattern pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<PatternSplitter>(std::move(pattern), behavior, invert);
}
std::unique_ptr<Splitter> split_on_literal(std::string literal, SplitBehavior behavior, bool invert) {
  return std::make_unique<LiteralSplitter>(std::move(literal), behavior, invert);
}
std::unique_ptr<Splitter> split_digits(bool individual) {
  return std::make_unique<DigitSplitter>(individual);
}
std::unique_ptr<Splitter> split_byte_level(bool prefix_space, bool gpt2_pattern) {
  return std::make_unique<ByteLevelSplitter>(prefix_space, gpt2_pattern);
}
std::unique_ptr<Splitter> split_metaspace(std::string replacement, PrependScheme prepend, bool split) {
  return std::make_unique<MetaspaceSplitter>(std::move(replacement), prepend, split);
}

}  // namespace kvcost
