#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/text/added_tokens.h"
#include "src/text/bpe.h"
#include "src/text/normalizer.h"
#include "src/text/splitter.h"
#include "src/text/tokenizer.h"
#include "src/text/word_cache.h"

namespace kvcost {

/// Added tokens are cut out, the rest is normalized, cut into words, and each word encoded by BPE.
class BpeTokenizer : public Tokenizer {
 public:
  struct Parts {
    AddedTokens raw;         ///< found before normalizing
    AddedTokens normalized;  ///< found after
    Normalizer normalizer;
    Splitters splitters;
    std::optional<Bpe> bpe;
    std::optional<int32_t> bos;
    int64_t size = 0;
    std::string kind;  ///< "byte-level BPE"
    std::string hash;
  };
  explicit BpeTokenizer(Parts parts) : parts_(std::move(parts)) {}

  std::vector<int32_t> encode(std::string_view text, bool special_tokens) const override;
  std::optional<int32_t> default_bos() const override { return parts_.bos; }
  int64_t size() const override { return parts_.size; }
  std::string describe() const override;
  std::string hash() const override { return parts_.hash; }

 private:
  void encode_plain(std::string_view text, bool opens_text, WordCache& cache,
                    std::vector<int32_t>& ids) const;

  Parts parts_;
};

/// "byte-level BPE, 49,152 tokens"
std::string describe_tokenizer(std::string_view kind, int64_t size);

}  // namespace kvcost
