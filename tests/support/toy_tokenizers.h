#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/text/tokenizer.h"

namespace kvcost {

/// One token for each byte, so that ids can be read as text again.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(std::optional<int32_t> bos = {}) : bos_(bos) {}
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    std::vector<int32_t> ids;
    for (unsigned char c : text) ids.push_back(c);
    return ids;
  }
  std::optional<int32_t> default_bos() const override { return bos_; }
  int64_t size() const override { return 300; }
  std::string describe() const override { return "bytes"; }
  std::string hash() const override { return "bytes"; }

 private:
  std::optional<int32_t> bos_;
};

inline std::string text_of(const std::vector<int32_t>& ids, int64_t begin, int64_t end) {
  std::string text;
  for (int64_t i = begin; i < end; ++i) text += static_cast<char>(ids[static_cast<size_t>(i)]);
  return text;
}

/// One token for each word with the space before it; line ends and what else splits words count as words too.
/// `joins`: one token for all of the text.
class WordTokenizer : public Tokenizer {
 public:
  explicit WordTokenizer(bool joins = false) : joins_(joins) {}
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool letter = std::isalnum(static_cast<unsigned char>(text[i])) != 0;
      const bool goes_on =
          i > 0 && letter && (text[i - 1] == ' ' || std::isalnum(static_cast<unsigned char>(text[i - 1])));
      if (ids.empty() || (!goes_on && !joins_)) ids.push_back(0);
      ids.back() = (ids.back() * 31 + static_cast<unsigned char>(text[i])) % 9973;
    }
    return ids;
  }
  std::optional<int32_t> default_bos() const override { return {}; }
  int64_t size() const override { return 9973; }
  std::string describe() const override { return "words"; }
  std::string hash() const override { return "words"; }

 private:
  bool joins_;
};

}  // namespace kvcost
