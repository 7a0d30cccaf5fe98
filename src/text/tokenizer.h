// text/: token ids from text, and windows of tokens. Knows nothing of models.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Token ids of UTF-8 text, no BOS added. InputError with the byte offset if the text is not valid UTF-8.
  /// Text that spells a special token is plain text unless `special_tokens`. Added tokens that the tokenizer
  /// does not call special (GGUF: user-defined) are ordinary words of its vocabulary and always found.
  virtual std::vector<int32_t> encode(std::string_view text, bool special_tokens = false) const = 0;
  /// The BOS id if the tokenizer's own default is to add one.
  virtual std::optional<int32_t> default_bos() const = 0;
  /// Ids are below this.
  virtual int64_t size() const = 0;
  /// One line for people: "byte-level BPE, 49,152 tokens".
  virtual std::string describe() const = 0;
  /// SHA-256 of all that can change an id.
  virtual std::string hash() const = 0;
};

/// What a GGUF file says of its tokenizer ("tokenizer.ggml.*"), as plain data; fields absent there are empty.
struct GgufTokenizerData {
  std::string model;  ///< "gpt2" or "llama"
  std::string pre;    ///< names the split pattern: "qwen2", "llama-bpe", "smollm", "gpt-2"
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  std::vector<std::string> merges;
  std::optional<int64_t> bos_id, eos_id, padding_id;
  std::optional<bool> add_bos, add_space_prefix;
};

/// From tokenizer.json, else tokenizer.model, of a Hugging Face folder (tokenizer_config.json read beside
/// it).
std::unique_ptr<Tokenizer> open_tokenizer_folder(const std::filesystem::path& folder);
std::unique_ptr<Tokenizer> make_gguf_tokenizer(GgufTokenizerData data);

}  // namespace kvcost
