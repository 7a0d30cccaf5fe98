#include "src/text/bpe_tokenizer.h"

#include <fmt/format.h>

#include "src/text/utf8.h"

namespace kvcost {

void BpeTokenizer::encode_plain(std::string_view text, bool opens_text, WordCache& cache,
                                std::vector<int32_t>& ids) const {
  Pieces pieces;
  pieces.list.push_back(text);
  for (const auto& splitter : parts_.splitters) splitter->split(pieces, opens_text);
  for (std::string_view piece : pieces.list)
    cache.append(piece, ids,
                 [&](std::string_view word, std::vector<int32_t>& out) { parts_.bpe->encode(word, out); });
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, bool special_tokens) const {
  require_utf8(text);
  std::vector<int32_t> ids;
  WordCache cache;
  for (const auto& stretch : parts_.raw.find(text, special_tokens)) {
    if (stretch.id >= 0) {
      ids.push_back(stretch.id);
      continue;
    }
    std::string made;
    std::string_view plain = stretch.text;
    if (!parts_.normalizer.empty()) plain = made = parts_.normalizer.apply(plain);
    for (const auto& part : parts_.normalized.find(plain, special_tokens)) {
      bool opens_text = stretch.text.data() == text.data() && part.text.data() == plain.data();
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        encode_plain(part.text, opens_text, cache, ids);
    }
  }
  return ids;
}

std::string BpeTokenizer::describe() const { return describe_tokenizer(parts_.kind, parts_.size); }

std::string describe_tokenizer(std::string_view kind, int64_t size) {
  std::string digits = fmt::format("{}", size), grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return fmt::format("{}, {} tokens", kind, grouped);
}

}  // namespace kvcost
