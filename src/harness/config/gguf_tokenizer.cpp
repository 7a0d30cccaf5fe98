#include "src/harness/config/gguf_tokenizer.h"

#include <fmt/format.h>

#include <string>

namespace kvcost {

GgufTokenizerData gguf_tokenizer_data(const Gguf& file) {
  auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
  GgufTokenizerData data;
  std::optional<std::string> model = file.string(key("model"));
  if (!model) throw InputError(fmt::format("{}: '{}' is missing", file.origin(), key("model")));
  data.model = *model;
  data.pre = file.string(key("pre")).value_or("");
  data.tokens = file.strings(key("tokens")).value_or(std::vector<std::string>{});
  data.scores = file.floats(key("scores")).value_or(std::vector<float>{});
  data.token_types = file.integers(key("token_type")).value_or(std::vector<int32_t>{});
  data.merges = file.strings(key("merges")).value_or(std::vector<std::string>{});
  data.bos_id = file.integer(key("bos_token_id"));
  data.eos_id = file.integer(key("eos_token_id"));
  data.padding_id = file.integer(key("padding_token_id"));
  data.add_bos = file.boolean(key("add_bos_token"));
  data.add_space_prefix = file.boolean(key("add_space_prefix"));
  return data;
}

}  // namespace kvcost
