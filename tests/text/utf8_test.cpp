#include "src/text/utf8.h"

#include "tests/text/support.h"

namespace kvcost {

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(invalid_utf8(""), std::nullopt);
  EXPECT_EQ(invalid_utf8("plain, and \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80"), std::nullopt);
  EXPECT_EQ(invalid_utf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"), std::nullopt);
  struct {
    std::string text;
    size_t at;
  } bad[] = {{"abc\xFF", 3},
             {"0123456789\x80", 10},
             {"\xC0\xAF", 0},          // overlong
             {"a\xE0\x80\xAF", 1},     // overlong
             {"\xF0\x80\x80\xAF", 0},  // overlong
             {"ab\xED\xA0\x80", 2},    // a surrogate
             {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
             {"\xF5\x80\x80\x80", 0},
             {"x\xC3", 1},
             {"x\xE2\x82", 1},
             {"x\xF0\x9F\x98", 1},
             {"\xC3\xA9\xE2\x28\xA1", 2}};
  for (const auto& [text, at] : bad) EXPECT_EQ(invalid_utf8(text), at);
}

TEST(Utf8, SaysWhereTextIsInvalid) {
  std::string message = refusal([] { require_utf8("good \xFE bad"); });
  EXPECT_NE(message.find("byte 5"), message.npos) << message;
  EXPECT_NE(message.find("0xFE"), message.npos) << message;
}

TEST(Utf8, DecodesAndEncodes) {
  const std::u32string points = U"a\u00e9\u20ac\U0001F600\U0010FFFF";
  std::string text;
  for (char32_t point : points) append_utf8(text, point);
  EXPECT_EQ(text, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF");
  std::u32string back;
  for (size_t at = 0; at < text.size();) back.push_back(next_code_point(text, at));
  EXPECT_EQ(back, points);
}

TEST(Utf8, NormalForms) {
  EXPECT_EQ(normal_form("e\u0301 x", "NFC"), "\u00e9 x");
  EXPECT_EQ(normal_form("\u00e9", "NFD"), "e\u0301");
  EXPECT_EQ(normal_form("\ufb01\u00b2", "NFKC"), "fi2");
  EXPECT_EQ(normal_form("\ufb01\u00e9", "NFKD"), "fie\u0301");
  std::string with_nul("\u00e9\0e\u0301", 6);
  EXPECT_EQ(normal_form(with_nul, "NFC"), std::string("\u00e9\0\u00e9", 5));
}

TEST(Utf8, Classes) {
  for (char32_t c : U"0\u0663\u00bd\u2167") EXPECT_EQ(is_numeric(c), c != 0);
  for (char32_t c : U" \t\n\u0085\u00a0\u2003\u2028\u3000") EXPECT_EQ(is_white_space(c), c != 0);
  for (char32_t c : U"x-\u200b\u180e\ufeff\u2060") EXPECT_FALSE(is_white_space(c)) << uint32_t(c);
  for (char32_t c : U"aZ_9\u00e9\u0301\u4e00\u2167\u24d0\u200d") EXPECT_EQ(is_word_character(c), c != 0);
  for (char32_t c : U" -.\u20ac\u2019\u2460\u00bd") EXPECT_FALSE(is_word_character(c)) << uint32_t(c);
}

}  // namespace kvcost
