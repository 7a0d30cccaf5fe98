#include "src/text/tokenizer_json.h"

#include "tests/text/support.h"

namespace kvcost {
namespace {

using nlohmann::json;

json byte_level() { return {{"type", "ByteLevel"}, {"add_prefix_space", false}}; }

/// A byte-level tokenizer of a few letters.
json small() {
  return {{"added_tokens", json::array({{{"id", 7}, {"content", "<s>"}, {"special", true}}})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"\u0120", 3}, {"s", 4}, {"<", 5}, {">", 6}}},
            {"merges", {"a b"}}}}};
}

json begins_with(int id) {
  return {{"type", "TemplateProcessing"},
          {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}}}}}},
          {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {id}}}}}}};
}

std::unique_ptr<Tokenizer> opened(const json& file, const TokenizerConfig& config = {}) {
  return parse_tokenizer_json(file.dump(), config, "tokenizer.json");
}

std::string refused(const json& file) {
  std::string message = refusal([&] { opened(file); });
  EXPECT_TRUE(message.starts_with("tokenizer.json")) << message;
  return message;
}

json patched(const char* pointer, json value) {
  json file = small();
  file[json::json_pointer(pointer)] = std::move(value);
  return file;
}

}  // namespace

TEST(TokenizerJson, EncodesAsHuggingFaceTokenizers) {
  const json goldens = golden("tiny_bpe.json");
  size_t variants = 0;
  for (const auto& kind : goldens["tokenizers"]) {
    for (const auto& variant : kind["variants"]) {
      SCOPED_TRACE(variant["name"].get<std::string>());
      json file = {{"added_tokens", variant["added_tokens"]},
                   {"normalizer", variant["normalizer"]},
                   {"pre_tokenizer", variant["pre_tokenizer"]},
                   {"model", variant["model"]}};
      file["model"]["vocab"] = kind["vocab"];
      file["model"]["merges"] = kind["merges"];
      auto tokenizer = opened(file);
      expect_golden(*tokenizer, variant["ids"]);
      if (variant.contains("ids_special")) expect_golden(*tokenizer, variant["ids_special"], true);
      ++variants;
    }
  }
  EXPECT_GE(variants, 20u);
}

TEST(TokenizerJson, MergesAsStringsOrPairs) {
  EXPECT_EQ(opened(small())->encode("abb"), (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(opened(patched("/model/merges", json::array({json::array({"a", "b"})})))->encode("abb"),
            (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(opened(patched("/model/merges", {"#version: 0.2", "a b"}))->encode("ab"),
            (std::vector<int32_t>{2}));
  EXPECT_EQ(opened(patched("/model/merges", json::array()))->encode("ab"), (std::vector<int32_t>{0, 1}));
}

TEST(TokenizerJson, SpecialTokensTextIsPlainUnlessAsked) {
  auto tokenizer = opened(small());
  EXPECT_EQ(tokenizer->encode("a<s>b"), (std::vector<int32_t>{0, 5, 4, 6, 1}));
  EXPECT_EQ(tokenizer->encode("a<s>b", true), (std::vector<int32_t>{0, 7, 1}));
}

TEST(TokenizerJson, SaysWhatItIs) {
  auto tokenizer = opened(small());
  EXPECT_EQ(tokenizer->size(), 8);
  EXPECT_EQ(tokenizer->describe(), "byte-level BPE, 8 tokens");
  EXPECT_EQ(tokenizer->hash().size(), 64u);
  EXPECT_EQ(tokenizer->hash(), opened(small())->hash());
  EXPECT_NE(tokenizer->hash(), opened(patched("/model/vocab/c", 9))->hash());
  EXPECT_NE(tokenizer->hash(), opened(small(), {.add_bos = true, .bos_token = "<s>"})->hash());
  EXPECT_EQ(opened(patched("/model/vocab/c", 48000))->describe(), "byte-level BPE, 48,001 tokens");
}

TEST(TokenizerJson, InvalidTextIsRefusedWithItsOffset) {
  EXPECT_NE(refusal([] { opened(small())->encode("ab\xC3"); }).find("byte 2"), std::string::npos);
}

TEST(TokenizerJson, BosIsTheTemplatesUnlessTheConfigSaysOtherwise) {
  EXPECT_EQ(opened(small())->default_bos(), std::nullopt);
  json with = patched("/post_processor", begins_with(7));
  EXPECT_EQ(opened(with)->default_bos(), 7);
  EXPECT_EQ(opened(with, {.add_bos = false})->default_bos(), std::nullopt);
  EXPECT_EQ(opened(with, {.bos_token = "a"})->default_bos(), 7);
  EXPECT_EQ(opened(small(), {.add_bos = true, .bos_token = "<s>"})->default_bos(), 7);
  EXPECT_EQ(opened(small(), {.add_bos = true, .bos_token = "a"})->default_bos(), 0);
  EXPECT_EQ(opened(small(), {.add_bos = true})->default_bos(), std::nullopt);
  json sequence = {{"type", "Sequence"}, {"processors", {byte_level(), begins_with(7)}}};
  EXPECT_EQ(opened(patched("/post_processor", sequence))->default_bos(), 7);
  json only_text = begins_with(7);
  only_text["single"].erase(0);
  only_text["single"].push_back({{"SpecialToken", {{"id", "</s>"}}}});
  EXPECT_EQ(opened(patched("/post_processor", only_text))->default_bos(), std::nullopt);
  EXPECT_EQ(opened(patched("/post_processor", byte_level()))->default_bos(), std::nullopt);
  // Encoding adds none.
  EXPECT_EQ(opened(with)->encode("a"), (std::vector<int32_t>{0}));

  refused(patched("/post_processor", begins_with(8)));
  refused(patched("/post_processor", begins_with(-1)));
  json twice = begins_with(7);
  twice["single"].insert(twice["single"].begin(), twice["single"][0]);
  refused(patched("/post_processor", twice));
  json textless = begins_with(7);
  textless["single"].erase(1);
  refused(patched("/post_processor", textless));
  EXPECT_NE(refused(patched("/post_processor", {{"type", "BertProcessing"}})).find("BertProcessing"),
            std::string::npos);
  EXPECT_NE(refusal([] { opened(small(), {.add_bos = true, .bos_token = "<none>"}); }).find("bos_token"),
            std::string::npos);
}

TEST(TokenizerJson, ConfigFile) {
  auto parse = [](const char* text) { return parse_tokenizer_config(text, "tokenizer_config.json"); };
  EXPECT_EQ(parse("{}").add_bos, std::nullopt);
  EXPECT_EQ(parse(R"({"add_bos_token": true, "bos_token": "<s>"})").add_bos, true);
  EXPECT_EQ(parse(R"({"bos_token": {"content": "<s>", "special": true}})").bos_token, "<s>");
  EXPECT_EQ(parse(R"({"bos_token": null, "add_bos_token": null})").bos_token, std::nullopt);
  for (const char* bad :
       {"[]", "{", R"({"add_bos_token": 1})", R"({"bos_token": 3})", R"({"bos_token": {}})"})
    EXPECT_TRUE(refusal([&] { parse(bad); }).starts_with("tokenizer_config.json")) << bad;
}

TEST(TokenizerJson, RefusesWhatItDoesNotSupportByName) {
  struct {
    const char* pointer;
    json value;
    const char* named;
  } cases[] = {
      {"/model/type", "Unigram", "Unigram"},
      {"/model/type", "WordPiece", "WordPiece"},
      {"/model/dropout", 0.1, "dropout"},
      {"/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
      {"/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
      {"/normalizer", {{"type", "Lowercase"}}, "Lowercase"},
      {"/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Precompiled"}}}}}, "Precompiled"},
      {"/pre_tokenizer", {{"type", "BertPreTokenizer"}}, "BertPreTokenizer"},
      {"/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Whitespace"}}}}}, "Whitespace"},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {byte_level(), byte_level()}}},
       "ByteLevel"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "\\h"}}}, {"behavior", "Isolated"}},
       "pattern"},
      {"/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Odd"}}, "Odd"},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "sometimes"}}, "sometimes"},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}, "replacement"},
  };
  for (const auto& [pointer, value, named] : cases) {
    std::string message = refused(patched(pointer, value));
    EXPECT_NE(message.find(named), message.npos) << message;
  }
}

TEST(TokenizerJson, RefusesMalformedFiles) {
  for (const char* text : {"", "{", "nul", "[]", "3", "\"x\"", "{\"model\": {}}", "{\"a\": 1e999}", "\xFF"})
    EXPECT_TRUE(
        refusal([&] { parse_tokenizer_json(text, {}, "tokenizer.json"); }).starts_with("tokenizer.json"))
        << text;
  // Any part replaced by a value of another kind: refused, or read as if absent.
  const json values[] = {nullptr,       true,           -1,    1.5,      "x", 1u << 31,
                         json::array(), json::object(), {"x"}, {1, 2, 3}};
  json flat = small();
  flat["post_processor"] = begins_with(7);
  flat["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "y"}};
  flat = flat.flatten();
  for (const auto& [pointer, _] : flat.items())
    for (json::json_pointer at(pointer); !at.empty(); at.pop_back())
      for (const json& value : values) {
        json file = flat.unflatten();
        file[at] = value;
        try {
          opened(file)->encode("ab <s>");
        } catch (const InputError& error) {
          EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
      }
  refused(patched("/model/vocab/a", -1));
  refused(patched("/model/vocab/a", 2147483647));
  refused(patched("/model/vocab/a", 18446744073709551615u));
  refused(patched("/model/vocab/a", "0"));
  refused(patched("/model/merges", {"a b c"}));
  refused(patched("/model/merges", {"ab"}));
  refused(patched("/model/merges", json::array({json::array({"a"})})));
  refused(patched("/model/merges", {"a a"}));
  refused(patched("/model/vocab", json::array()));
  refused(patched("/added_tokens/0/id", -7));
  refused(patched("/added_tokens/0/content", 1));
}

TEST(TokenizerJson, DeepNestingIsRefused) {
  json nested = byte_level();
  for (int i = 0; i < 100; ++i) nested = {{"type", "Sequence"}, {"pretokenizers", {nested}}};
  refused(patched("/pre_tokenizer", nested));
  EXPECT_FALSE(
      refusal([] { parse_tokenizer_json(std::string(200'000, '['), {}, "tokenizer.json"); }).empty());
}

TEST(TokenizerJson, NormalizersMayNotBlowUpText) {
  json steps = json::array();
  for (int i = 0; i < 20; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(64, 'a')}});
  auto tokenizer = opened(patched("/normalizer", {{"type", "Sequence"}, {"normalizers", steps}}));
  EXPECT_NE(refusal([&] { tokenizer->encode("aaaa"); }).find("GiB"), std::string::npos);
}

}  // namespace kvcost
