#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// A token found in the text before any splitting, by its spelling.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      ///< part of the model's protocol ("<|im_end|>"), not of the language
  bool single_word = false;  ///< only between non-word characters
  bool left_strip = false, right_strip = false;  ///< takes the white space beside it along
};

/// Finds added tokens: leftmost first, the longest at a place.
class AddedTokens {
 public:
  /// A stretch of text: a token's, or (id < 0) one to encode as usual.
  struct Stretch {
    std::string_view text;
    int32_t id;
  };

  /// Empty contents are dropped.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  /// Stretches covering `text`. Without `special`, special tokens are plain text.
  std::vector<Stretch> find(std::string_view text, bool special) const;
  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  const AddedToken* longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  /// Indices of the tokens that begin with a byte, longest first.
  std::array<std::vector<uint32_t>, 256> by_byte_;
  bool any_plain_ = false;
};

}  // namespace kvcost
