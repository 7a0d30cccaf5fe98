#include "src/text/pattern.h"

#include "tests/text/support.h"

namespace kvcost {
namespace {

/// Matched spans in (), the others bare: "(ab)c(ab)".
std::string marked(std::string_view pattern, std::string_view text) {
  std::vector<Span> spans;
  Pattern(pattern, "test").find(text, spans);
  std::string out;
  size_t covered = 0;
  for (const Span& span : spans) {
    EXPECT_EQ(span.begin, covered);
    covered = span.end;
    std::string_view part = text.substr(span.begin, span.end - span.begin);
    out.append(span.matched ? "(" : "").append(part).append(span.matched ? ")" : "");
  }
  EXPECT_EQ(covered, text.size());
  return out;
}

}  // namespace

TEST(Pattern, CoversTheText) {
  EXPECT_EQ(marked("b+", "abbab"), "a(bb)a(b)");
  EXPECT_EQ(marked("b+", ""), "");
  EXPECT_EQ(marked("z", "abc"), "abc");
  EXPECT_EQ(marked(R"(\p{L}+)", "\u00e9t\u00e9 1"), "(\u00e9t\u00e9) 1");
}

TEST(Pattern, EmptyMatchesMoveOn) {
  // As Oniguruma's iterator: none right after a match.
  EXPECT_EQ(marked("b*", "abba"), "()a(bb)a()");
  EXPECT_EQ(marked("(?=\\p{Lu})", "aB\u00c9"), "a()B()\u00c9");
}

TEST(Pattern, SpaceIsUnicodesWhiteSpace) {
  EXPECT_EQ(marked(R"(\s)", "a\u180eb"), "a\u180eb");
  EXPECT_EQ(marked(R"(\S+)", " \u180e "), " (\u180e) ");
  EXPECT_EQ(marked(R"([^\S]+)", "a \u0085\u180e"), "a( \u0085)\u180e");
  EXPECT_EQ(marked(R"([\s]+)", "a\u000b\u0085\u2028b"), "a(\u000b\u0085\u2028)b");
  EXPECT_EQ(marked(R"(\v)", "a\n\u000b"), "a\n(\u000b)");
}

TEST(Pattern, TranslatesEscapes) {
  EXPECT_EQ(marked(R"(\u00e9\x41\x{20AC})", "x\u00e9A\u20ac"), "x(\u00e9A\u20ac)");
  EXPECT_EQ(marked(R"([\u4e00-\u9fff]+)", "a\u4e2d\u6587b"), "a(\u4e2d\u6587)b");
  EXPECT_EQ(marked(R"(\w+)", "a_1\u0301\u2167\u24d0 \u2460-"), "(a_1\u0301\u2167\u24d0) \u2460-");
  EXPECT_EQ(marked(R"(\W+)", "a -b"), "a( -)b");
  EXPECT_EQ(marked("^.", "a\nb"), "(a)\n(b)");
  EXPECT_EQ(marked("(?i)x{2}", "xX x"), "(xX) x");
}

TEST(Pattern, RefusesWhatEnginesReadDifferently) {
  for (const char* pattern :
       {R"(\h)",          R"(\bx)",   R"(\R)",    R"(\K)",  R"((a)\1)",   R"([a[bc]])", R"([a&&b])",
        R"([[:alpha:]])", R"([])",    R"([a)",    R"([a\)", R"((?<n>a))", R"((?m:a))",  R"((?R))",
        R"((*UTF)a)",     R"(a{,3})", R"(a{2}+)", R"(a{)",  R"(a{x})",    R"(\)",       R"(\x8)",
        R"(\xFF)",        R"(\u12)",  R"([\W])",  "a(?i)b", "(",          "a)",         "*",
        R"(\p{Nope})"})
    EXPECT_TRUE(refusal([&] { Pattern(pattern, "tokenizer.json: x"); }).starts_with("tokenizer.json: x"))
        << pattern;
  EXPECT_NE(refusal([] { Pattern(std::string(30000, 'a'), "t"); }).find("20000"), std::string::npos);
}

TEST(Pattern, StopsAbsurdWork) {
  std::vector<Span> spans;
  Pattern slow("(?:a|aa|aaa)+(?:b|c)", "t");
  EXPECT_NE(refusal([&] { slow.find(std::string(200, 'a'), spans); }).find("split pattern"),
            std::string::npos);
}

TEST(Pattern, LongRunsNeedNoStack) {
  std::string text = std::string(3'000'000, ' ') + "x";
  std::vector<Span> spans;
  Pattern(R"(\s*[\r\n]+|\s+(?!\S)|\s+|\S+)", "t").find(text, spans);
  EXPECT_EQ(spans.size(), 3u);
}

}  // namespace kvcost
