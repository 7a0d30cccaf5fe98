#include <algorithm>
#include <cstring>

#include "src/text/charsmap.h"
#include "src/text/sentencepiece_model.h"
#include "src/text/sentencepiece_tokenizer.h"
#include "tests/text/support.h"

namespace kvcost {
namespace {

std::string from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    size_t digit = digits.find(c);
    if (digit == digits.npos) break;
    bits = bits << 6 | uint32_t(digit);
    if ((count += 6) >= 8) out.push_back(char(bits >> (count -= 8) & 0xFF));
  }
  return out;
}

std::string proto_of(const std::string& name) {
  const nlohmann::json goldens = golden("tiny_sentencepiece.json");
  for (const auto& item : goldens["models"])
    if (item["name"] == name) return from_base64(item["proto"].get<std::string>());
  ADD_FAILURE() << name;
  return "";
}

/// The character map (field 2 of field 3) of a model, by its place.
std::string charsmap_of(const std::string& proto) {
  // "nmt" and all other names precede it; 0x12 is its tag, a two-byte length follows.
  for (size_t at = 0; at + 3 < proto.size(); ++at) {
    if (proto[at] != 0x12) continue;
    size_t length = (uint8_t(proto[at + 1]) & 0x7F) | size_t(uint8_t(proto[at + 2])) << 7;
    if (length < 1024 || at + 3 + length > proto.size()) continue;
    std::string blob = proto.substr(at + 3, length);
    uint32_t trie = 0;
    std::memcpy(&trie, blob.data(), 4);
    if (trie % 1024 == 0 && trie < length) return blob;
  }
  ADD_FAILURE() << "no character map";
  return "";
}

}  // namespace

TEST(SentencePiece, EncodesAsThePythonPackage) {
  const nlohmann::json goldens = golden("tiny_sentencepiece.json");
  ASSERT_GE(goldens["models"].size(), 3u);
  for (const auto& item : goldens["models"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    auto tokenizer = open_sentencepiece_file(from_base64(item["proto"].get<std::string>()), {}, "t");
    expect_golden(*tokenizer, item["ids"]);
  }
}

TEST(SentencePiece, GoesWordByWordOnlyWhereNoPieceReachesOverAWord) {
  EXPECT_TRUE(read_sentencepiece(proto_of("llama"), "t").word_by_word);
  EXPECT_TRUE(read_sentencepiece(proto_of("no prefix"), "t").word_by_word);
  EXPECT_FALSE(read_sentencepiece(proto_of("unigram"), "t").word_by_word);
  SentencePieceModel model = read_sentencepiece(proto_of("llama"), "t");
  auto encode = [](const SentencePieceModel& m) {
    return open_sentencepiece_file(write_sentencepiece(m), {}, "t")->encode("a b a b");
  };
  auto without = encode(model);
  model.pieces.push_back({"\u2581a\u2581", 1, SentencePieceModel::normal});
  auto with = encode(model);
  EXPECT_FALSE(read_sentencepiece(write_sentencepiece(model), "t").word_by_word);
  EXPECT_NE(with, without);
  EXPECT_EQ(std::count(with.begin(), with.end(), int32_t(model.pieces.size()) - 1), 2);
}

TEST(SentencePiece, BosIsAddedUnlessTheFolderSaysOtherwise) {
  std::string proto = proto_of("llama");
  EXPECT_EQ(open_sentencepiece_file(proto, {}, "t")->default_bos(), 1);
  EXPECT_EQ(open_sentencepiece_file(proto, true, "t")->default_bos(), 1);
  EXPECT_EQ(open_sentencepiece_file(proto, false, "t")->default_bos(), std::nullopt);
  EXPECT_NE(open_sentencepiece_file(proto, true, "t")->hash(),
            open_sentencepiece_file(proto, false, "t")->hash());
}

TEST(SentencePiece, SpecialTokensTextIsPlainUnlessAsked) {
  auto tokenizer = open_sentencepiece_file(proto_of("llama"), {}, "t");
  auto plain = tokenizer->encode("a<s>b</s>");
  EXPECT_EQ(std::count_if(plain.begin(), plain.end(), [](int32_t id) { return id < 3; }), 0);
  auto special = tokenizer->encode("a<s>b</s>", true);
  EXPECT_EQ(std::count(special.begin(), special.end(), 1), 1);
  EXPECT_EQ(special.back(), 2);
  EXPECT_NE(refusal([&] { tokenizer->encode("ab\x80"); }).find("byte 2"), std::string::npos);
}

TEST(SentencePiece, WritesWhatItReads) {
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0, SentencePieceModel::unknown}, {"\u2581a", -1.5f, SentencePieceModel::normal}};
  model.add_dummy_prefix = false;
  SentencePieceModel back = read_sentencepiece(write_sentencepiece(model), "t");
  ASSERT_EQ(back.pieces.size(), 2u);
  EXPECT_EQ(back.pieces[1].text, "\u2581a");
  EXPECT_EQ(back.pieces[1].score, -1.5f);
  EXPECT_EQ(back.pieces[0].type, SentencePieceModel::unknown);
  EXPECT_FALSE(back.add_dummy_prefix);
}

TEST(SentencePiece, TruncatedAndChangedFilesAreRefusedOrRead) {
  auto attempt = [](const std::string& proto) {
    try {
      open_sentencepiece_file(proto, {}, "tokenizer.model")->encode("a b \u00e9 \ufb01");
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("tokenizer.model")) << error.what();
    }
  };
  for (const char* name : {"llama", "unigram"}) {
    std::string proto = proto_of(name);
    for (size_t length = 0; length < proto.size(); length += 97) attempt(proto.substr(0, length));
    for (size_t at = 0; at < proto.size(); at += 41) {
      std::string changed = proto;
      changed[at] = char(changed[at] ^ (1 << at % 8));
      attempt(changed);
    }
  }
  EXPECT_FALSE(refusal([] { open_sentencepiece_file("", {}, "t"); }).empty());
  EXPECT_FALSE(refusal([] { open_sentencepiece_file("not a model", {}, "t"); }).empty());
}

TEST(SentencePiece, DeeplyNestedUserDefinedPiecesAreRefused) {
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0, SentencePieceModel::unknown}};
  for (size_t n = 1; n <= 64; ++n)
    model.pieces.push_back({std::string(n, 'a'), 0, SentencePieceModel::user_defined});
  EXPECT_EQ(read_sentencepiece(write_sentencepiece(model), "t").pieces.size(), 65u);
  model.pieces.push_back({std::string(65, 'a'), 0, SentencePieceModel::user_defined});
  EXPECT_NE(refusal([&] { read_sentencepiece(write_sentencepiece(model), "t"); }).find("64"),
            std::string::npos);
}

TEST(Charsmap, EveryReachableNodeMustLieInside) {
  check_charsmap("", "t");
  std::string good = charsmap_of(proto_of("unigram"));
  check_charsmap(good, "t");
  auto refused = [](std::string blob) { return refusal([&] { check_charsmap(blob, "t"); }); };
  EXPECT_FALSE(refused("abc").empty());
  EXPECT_FALSE(refused(good.substr(0, 100)).empty());
  std::string open_end = good;
  open_end.back() = 'x';
  EXPECT_FALSE(refused(open_end).empty());
  auto with_root = [&](uint32_t unit) {
    std::string blob = good;
    std::memcpy(blob.data() + 4, &unit, 4);
    return blob;
  };
  EXPECT_NE(refused(with_root(0x3FFFFF << 10)).find("offset"), std::string::npos);
  // A trie that leads back to itself: every unit is labelled by its place, and unit 1 has the children of
  // unit 0.
  std::string loop(4 + 1024 + 1, '\0');
  uint32_t trie = 1024;
  std::memcpy(loop.data(), &trie, 4);
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t unit = i == 1 ? 1 | 1 << 10 : i;
    std::memcpy(loop.data() + 4 + 4 * i, &unit, 4);
  }
  EXPECT_NE(refused(loop).find("loop"), std::string::npos);
}

}  // namespace kvcost
