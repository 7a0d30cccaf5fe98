#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvcost {

/// Byte-pair encoding of one word at a time: the pair of neighbours that was learnt first is joined first.
class Bpe {
 public:
  struct Options {
    bool byte_level = true;      ///< tokens spell bytes in GPT-2's alphabet; otherwise they are text
    bool ignore_merges = false;  ///< a word that is a token is that token, whatever the merges make of it
    bool byte_fallback = false;  ///< text only: a character without a token becomes "<0xE2>"-like tokens
    bool fuse_unknown = false;   ///< neighbouring unknown characters become one unknown token
    std::optional<std::string> unknown = {};
  };
  using Vocabulary = std::unordered_map<std::string, int32_t>;
  /// In the order in which they were learnt. Views need to live only while the constructor runs.
  using Merges = std::vector<std::pair<std::string_view, std::string_view>>;

  /// Ids in the vocabulary must not be negative. InputError starting with `where` if a merge names or makes a
  /// token that is not in the vocabulary, or the unknown token is not.
  Bpe(const Vocabulary& vocabulary, const Merges& merges, Options options, const std::string& where);

  /// Appends the ids of `word`, which must be valid UTF-8. InputError if a character has no token at all.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t made;
  };
  /// A token of the word being merged, in a doubly linked list (-1 ends it).
  struct Symbol {
    int32_t id, previous, next;
  };
  const Merge* merge_of(int32_t left, int32_t right) const;
  void split_bytes(std::string_view word, std::vector<Symbol>& symbols) const;
  void split_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  void push_unknown(std::string_view character, std::vector<Symbol>& symbols) const;
  void merge(std::vector<Symbol>& symbols) const;

  Options options_;
  /// Tokens by the bytes they stand for: all of them, or those of one character where that is enough.
  Vocabulary tokens_;
  std::array<int32_t, 256> bytes_;  ///< the token of each byte (byte level, or the fallback), or -1
  int32_t unknown_ = -1;
  std::unordered_map<uint64_t, Merge> merges_;
};

/// GPT-2's spelling of bytes: the bytes that `token` stands for, or nothing if it is not so spelt.
std::optional<std::string> spelt_bytes(std::string_view token);

}  // namespace kvcost
