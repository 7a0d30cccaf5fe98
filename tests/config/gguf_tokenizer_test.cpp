#include "src/harness/config/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "tests/formats/expect_error.h"
#include "tests/formats/tiny_models.h"

namespace kvcost {
namespace {

GgufTokenizerData read(const tiny::GgufBuilder& file) {
  std::string bytes = file.bytes();
  return gguf_tokenizer_data(Gguf::parse(std::as_bytes(std::span(bytes)), "model.gguf"));
}

}  // namespace

TEST(GgufTokenizer, TakesWhatTheFileSays) {
  tiny::GgufBuilder file;
  file.set_string("tokenizer.ggml.model", "gpt2");
  file.set_string("tokenizer.ggml.pre", "smollm");
  file.set_array<std::string>("tokenizer.ggml.tokens", 8, {"a", "b", "ab"});
  file.set_array<float>("tokenizer.ggml.scores", 6, {0, -1, -2});
  file.set_array<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 3});
  file.set_array<std::string>("tokenizer.ggml.merges", 8, {"a b"});
  file.set_u32("tokenizer.ggml.bos_token_id", 2);
  file.set_u32("tokenizer.ggml.eos_token_id", 1);
  file.set_bool("tokenizer.ggml.add_bos_token", false);
  GgufTokenizerData data = read(file);
  EXPECT_EQ(data.model, "gpt2");
  EXPECT_EQ(data.pre, "smollm");
  EXPECT_EQ(data.tokens, (std::vector<std::string>{"a", "b", "ab"}));
  EXPECT_EQ(data.scores, (std::vector<float>{0, -1, -2}));
  EXPECT_EQ(data.token_types, (std::vector<int32_t>{1, 1, 3}));
  EXPECT_EQ(data.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(data.bos_id, 2);
  EXPECT_EQ(data.eos_id, 1);
  EXPECT_FALSE(data.padding_id);
  EXPECT_EQ(data.add_bos, false);
  EXPECT_FALSE(data.add_space_prefix);
}

TEST(GgufTokenizer, NamesWhatIsWrong) {
  tiny::GgufBuilder file;
  expect_error([&] { read(file); }, {"model.gguf", "'tokenizer.ggml.model' is missing"});
  file.set_string("tokenizer.ggml.model", "gpt2");
  file.set_string("tokenizer.ggml.tokens", "a b c");
  expect_error([&] { read(file); }, {"'tokenizer.ggml.tokens' is a string, expected an array of strings"});
}

}  // namespace kvcost
