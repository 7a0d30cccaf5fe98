#include "src/text/bpe.h"

#include "tests/text/support.h"

namespace kvcost {
namespace {

Bpe::Vocabulary letters(std::initializer_list<const char*> tokens) {
  Bpe::Vocabulary out;
  for (const char* token : tokens) out.emplace(token, int32_t(out.size()));
  return out;
}

std::vector<int32_t> encoded(const Bpe& bpe, std::string_view word) {
  std::vector<int32_t> ids;
  bpe.encode(word, ids);
  return ids;
}

}  // namespace

TEST(Bpe, JoinsTheEarliestLearntPairFirst) {
  auto vocabulary = letters({"a", "b", "c", "ab", "bc", "abc"});
  Bpe bpe(vocabulary, {{"b", "c"}, {"a", "b"}, {"a", "bc"}}, {}, "t");
  EXPECT_EQ(encoded(bpe, "abc"), (std::vector<int32_t>{5}));
  EXPECT_EQ(encoded(bpe, "abab"), (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(encoded(bpe, ""), (std::vector<int32_t>{}));
  Bpe other(vocabulary, {{"a", "b"}, {"b", "c"}, {"a", "bc"}}, {}, "t");
  EXPECT_EQ(encoded(other, "abc"), (std::vector<int32_t>{3, 2}));
}

TEST(Bpe, JoinsFromTheLeft) {
  Bpe bpe(letters({"a", "aa"}), {{"a", "a"}}, {}, "t");
  EXPECT_EQ(encoded(bpe, "aaaaa"), (std::vector<int32_t>{1, 1, 0}));
}

TEST(Bpe, APairGivenTwiceCountsWhereItStandsLast) {
  auto vocabulary = letters({"a", "b", "c", "ab", "bc"});
  Bpe bpe(vocabulary, {{"a", "b"}, {"b", "c"}, {"a", "b"}}, {}, "t");
  EXPECT_EQ(encoded(bpe, "abc"), (std::vector<int32_t>{0, 4}));
}

TEST(Bpe, WordsThatAreTokens) {
  auto vocabulary = letters({"a", "b", "c", "ab", "abc"});
  EXPECT_EQ(encoded(Bpe(vocabulary, {{"a", "b"}}, {}, "t"), "abc"), (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(encoded(Bpe(vocabulary, {{"a", "b"}}, {.ignore_merges = true}, "t"), "abc"),
            (std::vector<int32_t>{4}));
}

TEST(Bpe, BytesAreSpeltInGpt2sAlphabet) {
  EXPECT_EQ(spelt_bytes("\u0120a\u010a"), " a\n");
  EXPECT_EQ(spelt_bytes("\u00e9"), "\xE9");
  EXPECT_EQ(spelt_bytes("\u0100\u0143"), std::string("\0\xAD", 2));
  EXPECT_EQ(spelt_bytes("a b"), std::nullopt);
  EXPECT_EQ(spelt_bytes("\u4e00"), std::nullopt);
  EXPECT_EQ(spelt_bytes("\xFF"), std::nullopt);
  Bpe bpe(letters({"\u00c3", "\u00a9", "\u00c3\u00a9"}), {{"\u00c3", "\u00a9"}}, {}, "t");
  EXPECT_EQ(encoded(bpe, "\u00e9"), (std::vector<int32_t>{2}));
}

TEST(Bpe, UnknownCharacters) {
  auto vocabulary = letters({"a", "?"});
  Bpe none(vocabulary, {}, {}, "t");
  EXPECT_NE(refusal([&] { encoded(none, "ab"); }).find("0x62"), std::string::npos);
  Bpe apart(vocabulary, {}, {.byte_level = false, .unknown = "?"}, "t");
  EXPECT_EQ(encoded(apart, "bca\u00e9"), (std::vector<int32_t>{1, 1, 0, 1}));
  Bpe fused(vocabulary, {}, {.byte_level = false, .fuse_unknown = true, .unknown = "?"}, "t");
  EXPECT_EQ(encoded(fused, "bca\u00e9"), (std::vector<int32_t>{1, 0, 1}));
}

TEST(Bpe, FallsBackToBytes) {
  auto vocabulary = letters({"a", "<0xC3>", "<0xA9>", "?"});
  Bpe bpe(vocabulary, {}, {.byte_level = false, .byte_fallback = true, .unknown = "?"}, "t");
  EXPECT_EQ(encoded(bpe, "a\u00e9\u00e8"), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(Bpe, RefusesMergesOutsideTheVocabulary) {
  auto vocabulary = letters({"a", "b"});
  auto build = [&](Bpe::Merges merges) { Bpe(vocabulary, merges, {}, "tokenizer.json"); };
  EXPECT_EQ(refusal([&] {
              build({{"a", "z\n"}});
            }),
            "tokenizer.json: merge 0 needs the token 'z?', which is not in the vocabulary");
  EXPECT_NE(refusal([&] { build({{"a", "b"}}); }).find("'ab'"), std::string::npos);
  EXPECT_NE(refusal([&] { Bpe(vocabulary, {}, {.unknown = "<unk>"}, "t"); }).find("<unk>"),
            std::string::npos);
}

TEST(Bpe, MergesThatMakeNoProgressEnd) {
  auto vocabulary = letters({"a", "", "aa"});
  Bpe bpe(vocabulary, {{"", "a"}, {"a", ""}, {"", ""}, {"a", "a"}}, {}, "t");
  EXPECT_EQ(encoded(bpe, "aaa"), (std::vector<int32_t>{2, 0}));
}

TEST(Bpe, LongWordsTakeLittleTime) {
  auto vocabulary = letters({"a", "aa", "aaaa"});
  Bpe bpe(vocabulary, {{"a", "a"}, {"aa", "aa"}}, {}, "t");
  EXPECT_EQ(encoded(bpe, std::string(400'001, 'a')).size(), 100'001u);
}

}  // namespace kvcost
