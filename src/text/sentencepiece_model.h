#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// The parts of SentencePiece's model file (a protocol buffer) that matter here.
struct SentencePieceModel {
  enum PieceType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score;
    int32_t type;
  };
  std::vector<Piece> pieces;
  bool add_dummy_prefix = true;
  /// Nothing but the pieces decides, and none reaches over the start of a word (a space after something
  /// else): the text may be encoded word by word.
  bool word_by_word = false;
};

/// Reads the pieces of a model file and checks all that the library takes on trust: sizes, UTF-8, finite
/// scores, and the character map's trie, whose offsets it follows unchecked. InputError starting with
/// `where`.
SentencePieceModel read_sentencepiece(std::string_view proto, const std::string& where);

/// The same model file with "add_dummy_prefix" off.
std::string without_dummy_prefix(std::string proto);

/// A model file of the BPE kind, without character map, that leaves white space as it is (as Llama's).
std::string write_sentencepiece(const SentencePieceModel& model);

}  // namespace kvcost
