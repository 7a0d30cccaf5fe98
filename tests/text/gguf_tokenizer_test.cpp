#include <cmath>

#include "src/text/sentencepiece_model.h"
#include "tests/text/support.h"

namespace kvcost {
namespace {

using nlohmann::json;

/// The byte-level vocabulary of tiny_bpe.json as a GGUF file would hold it.
GgufTokenizerData tiny(const std::string& pre) {
  static const json kind = golden("tiny_bpe.json")["tokenizers"][0];
  GgufTokenizerData data;
  data.model = "gpt2";
  data.pre = pre;
  data.tokens.resize(kind["vocab"].size());
  for (const auto& [token, id] : kind["vocab"].items()) data.tokens[id.get<size_t>()] = token;
  for (const auto& merge : kind["merges"])
    data.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return data;
}

json variant_ids(const std::string& name) {
  const json goldens = golden("tiny_bpe.json");
  for (const auto& variant : goldens["tokenizers"][0]["variants"])
    if (variant["name"] == name) return variant["ids"];
  ADD_FAILURE() << name;
  return {};
}

GgufTokenizerData llama() {
  GgufTokenizerData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "\u2581a"};
  data.scores = {0, 0, 0, -4, -5, -1, -6, -2};
  data.token_types = {2, 3, 3, 1, 1, 1, 1, 1};
  data.bos_id = 1;
  return data;
}

std::string refused(GgufTokenizerData data) {
  return refusal([&] { make_gguf_tokenizer(std::move(data)); });
}

}  // namespace

TEST(GgufTokenizer, PreNamesTheModelsOwnScheme) {
  struct {
    const char *pre, *variant;
  } cases[] = {{"gpt-2", "gpt2"}, {"smollm", "smollm"}, {"qwen2", "qwen2"}, {"llama-bpe", "llama-bpe"}};
  for (const auto& [pre, variant] : cases) {
    SCOPED_TRACE(pre);
    expect_golden(*make_gguf_tokenizer(tiny(pre)), variant_ids(variant));
  }
}

TEST(GgufTokenizer, BosIsAsTheFileSaysElseAsTheFamilysDefault) {
  auto bos = [](const std::string& pre, std::optional<bool> add, std::optional<int64_t> id) {
    GgufTokenizerData data = tiny(pre);
    data.add_bos = add;
    data.bos_id = id;
    return make_gguf_tokenizer(std::move(data))->default_bos();
  };
  EXPECT_EQ(bos("qwen2", {}, 5), std::nullopt);
  EXPECT_EQ(bos("qwen2", true, 5), 5);
  EXPECT_EQ(bos("qwen2", false, 5), std::nullopt);
  EXPECT_EQ(bos("llama-bpe", {}, 5), 5);
  EXPECT_EQ(bos("llama-bpe", {}, {}), std::nullopt);
  EXPECT_EQ(bos("llama-bpe", false, 5), std::nullopt);
  EXPECT_EQ(make_gguf_tokenizer(llama())->default_bos(), 1);
  EXPECT_FALSE(refusal([&] { bos("qwen2", true, {}); }).empty());
  EXPECT_FALSE(refusal([&] { bos("qwen2", true, 1'000'000); }).empty());
  EXPECT_FALSE(refusal([&] { bos("qwen2", true, -1); }).empty());
}

TEST(GgufTokenizer, ControlTokensArePlainTextAndUserDefinedOnesAreNot) {
  GgufTokenizerData data = tiny("gpt-2");
  data.token_types.assign(data.tokens.size(), 1);
  auto add = [&](const char* token, int32_t type) {
    data.tokens.push_back(token);
    data.token_types.push_back(type);
    return int32_t(data.tokens.size()) - 1;
  };
  int32_t control = add("<|end|>", 3), tool = add("<tool>", 4);
  auto tokenizer = make_gguf_tokenizer(std::move(data));
  auto plain = tokenizer->encode("<|end|><tool>");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), control), 0);
  EXPECT_EQ(plain.back(), tool);
  EXPECT_EQ(tokenizer->encode("<|end|><tool>", true), (std::vector<int32_t>{control, tool}));
  EXPECT_EQ(tokenizer->size(), control + 2);
}

TEST(GgufTokenizer, LlamaMergesByScore) {
  auto tokenizer = make_gguf_tokenizer(llama());
  // " ab": "ab" (-1) is joined before " a" (-2).
  EXPECT_EQ(tokenizer->encode("ab"), (std::vector<int32_t>{6, 5}));
  EXPECT_EQ(tokenizer->encode("a"), (std::vector<int32_t>{7}));
  EXPECT_EQ(tokenizer->encode("a<s>", true), (std::vector<int32_t>{7, 1}));
  EXPECT_EQ(tokenizer->encode("c"), (std::vector<int32_t>{6, 0}));
  EXPECT_EQ(tokenizer->encode(""), (std::vector<int32_t>{}));
  EXPECT_EQ(tokenizer->describe(), "SentencePiece, 8 tokens");
  GgufTokenizerData bare = llama();
  bare.add_space_prefix = false;
  EXPECT_EQ(make_gguf_tokenizer(bare)->encode("a a"), (std::vector<int32_t>{3, 7}));
}

TEST(GgufTokenizer, LlamaEqualsTheModelFileItCameFrom) {
  const json goldens = golden("tiny_sentencepiece.json");
  for (const auto& item : goldens["models"]) {
    if (item["name"] == "unigram") continue;
    SCOPED_TRACE(item["name"].get<std::string>());
    GgufTokenizerData data;
    data.model = "llama";
    data.add_space_prefix = item["name"] != "no prefix";
    for (const auto& piece : item["pieces"]) {
      data.tokens.push_back(piece[0]);
      data.scores.push_back(piece[1]);
      data.token_types.push_back(piece[2]);
    }
    expect_golden(*make_gguf_tokenizer(std::move(data)), item["ids"]);
  }
}

TEST(GgufTokenizer, HashSeesEveryField) {
  std::string base = make_gguf_tokenizer(llama())->hash();
  EXPECT_EQ(base, make_gguf_tokenizer(llama())->hash());
  GgufTokenizerData data = llama();
  data.scores[3] = -4.5;
  EXPECT_NE(base, make_gguf_tokenizer(data)->hash());
  data = llama();
  data.tokens[3] = "c";
  EXPECT_NE(base, make_gguf_tokenizer(data)->hash());
  data = llama();
  data.add_bos = false;
  EXPECT_NE(base, make_gguf_tokenizer(data)->hash());
  data = llama();
  data.add_space_prefix = false;
  EXPECT_NE(base, make_gguf_tokenizer(data)->hash());
  EXPECT_NE(make_gguf_tokenizer(tiny("gpt-2"))->hash(), make_gguf_tokenizer(tiny("smollm"))->hash());
}

TEST(GgufTokenizer, RefusesWhatItCannotUse) {
  auto with = [](auto change, GgufTokenizerData data) {
    change(data);
    return refused(std::move(data));
  };
  EXPECT_NE(with([](auto& d) { d.model = "bert"; }, tiny("qwen2")).find("'bert'"), std::string::npos);
  EXPECT_NE(with([](auto& d) { d.pre = "qwen22"; }, tiny("")).find("did you mean 'qwen2'"),
            std::string::npos);
  EXPECT_NE(refused(tiny("")).find("tokenizer.ggml.pre"), std::string::npos);
  EXPECT_NE(with([](auto& d) { d.merges.clear(); }, tiny("qwen2")).find("merges"), std::string::npos);
  EXPECT_NE(with([](auto& d) { d.tokens.clear(); }, tiny("qwen2")).find("tokens"), std::string::npos);
  EXPECT_NE(with(
                [](auto& d) {
                  d.token_types = {1, 1};
                },
                tiny("qwen2"))
                .find("2 token types"),
            std::string::npos);
  EXPECT_NE(with([](auto& d) { d.merges[0] = "a"; }, tiny("qwen2")).find("merge 0"), std::string::npos);
  EXPECT_NE(with([](auto& d) { d.merges[0] = "zz yy"; }, tiny("qwen2")).find("'zz'"), std::string::npos);
  EXPECT_NE(with(
                [](auto& d) {
                  d.token_types.assign(d.tokens.size(), 1);
                  d.token_types[9] = 3;
                  d.tokens[9] = "\xFF";
                },
                tiny("qwen2"))
                .find("token 9"),
            std::string::npos);
  EXPECT_NE(with([](auto& d) { d.scores.pop_back(); }, llama()).find("7 scores"), std::string::npos);
  EXPECT_FALSE(with([](auto& d) { d.scores[3] = std::nanf(""); }, llama()).empty());
  EXPECT_FALSE(with([](auto& d) { d.tokens[3] = ""; }, llama()).empty());
  EXPECT_FALSE(with([](auto& d) { d.tokens[3] = "\xC3"; }, llama()).empty());
  EXPECT_FALSE(with([](auto& d) { d.tokens[3] = "b"; }, llama()).empty());
  EXPECT_FALSE(with([](auto& d) { d.token_types[3] = 9; }, llama()).empty());
  EXPECT_FALSE(with([](auto& d) { d.token_types[0] = 1; }, llama()).empty());
}

}  // namespace kvcost
