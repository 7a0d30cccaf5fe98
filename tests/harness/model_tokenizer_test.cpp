// The real models' tokenizers, where their GGUF files have been fetched, against goldens made by
// tests/text/data/make_goldens.py with Hugging Face tokenizers.
#include <cstdlib>
#include <filesystem>
#include <span>

#include "src/harness/config/gguf_tokenizer.h"
#include "src/text/windows.h"
#include "tests/text/support.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

struct Model {
  const char *name, *file;
};

class ModelTokenizer : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("KVCOST_MODELS");
    fs::path path = fs::path(folder != nullptr ? folder : KVCOST_SOURCE_DIR "/models") / GetParam().file;
    if (!fs::exists(path)) GTEST_SKIP() << path << " has not been fetched";
    tokenizer_ = make_gguf_tokenizer(gguf_tokenizer_data(Gguf::open(path)));
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

TEST_P(ModelTokenizer, HardCases) {
  const std::string name = GetParam().name;
  const nlohmann::json goldens = golden("hard_cases.json");
  for (const auto& item : goldens["cases"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    std::string text = item["text"];
    EXPECT_EQ(tokenizer_->encode(text), item[name].get<std::vector<int32_t>>());
    const auto& special = item.contains(name + "_special") ? item[name + "_special"] : item[name];
    EXPECT_EQ(tokenizer_->encode(text, true), special.get<std::vector<int32_t>>());
  }
  EXPECT_EQ(tokenizer_->default_bos(), std::nullopt);
}

TEST_P(ModelTokenizer, HeldoutDocuments) {
  const nlohmann::json goldens = golden("heldout_goldens.json");
  Corpus corpus = read_corpus({KVCOST_SOURCE_DIR "/data/heldout"}, *tokenizer_, tokenizer_->size(), false);
  ASSERT_EQ(corpus.documents.size(), goldens["documents"].size());
  for (const Document& document : corpus.documents) {
    SCOPED_TRACE(document.name);
    const auto& expected = goldens["documents"][fs::path(document.name).filename().string()][GetParam().name];
    EXPECT_EQ(document.ids.size(), expected["ids"].get<size_t>());
    EXPECT_EQ(sha256(std::as_bytes(std::span(document.ids))), expected["sha256"].get<std::string>());
  }
  EXPECT_EQ(cut_windows(corpus, 12, 2048).size(), 12u);
}

INSTANTIATE_TEST_SUITE_P(
    Fetched, ModelTokenizer,
    testing::Values(Model{"smollm2", "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf"},
                    Model{"qwen2", "qwen2.5-coder-0.5b-instruct/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace kvcost
