#include "src/text/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "src/base/error.h"
#include "src/text/charsmap.h"
#include "src/text/utf8.h"

namespace kvcost {
namespace {

using Piece = SentencePieceModel::Piece;

enum WireType : uint32_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

struct Field {
  uint32_t number;
  uint32_t wire;
  uint64_t value;          ///< varint and fixed32
  std::string_view bytes;  ///< length_delimited
};

/// Walks the fields of a message, every length checked.
class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  std::optional<Field> next() {
    if (at_ == bytes_.size()) return std::nullopt;
    uint64_t tag = read_varint();
    Field field{uint32_t(tag >> 3), uint32_t(tag & 7), 0, {}};
    if (tag >> 32 || field.number == 0) fail("a field without a number");
    switch (field.wire) {
      case varint:
        field.value = read_varint();
        break;
      case fixed64:
        take(8);
        break;
      case length_delimited: {
        uint64_t length = read_varint();
        field.bytes = take(length);
        break;
      }
      case fixed32: {
        std::string_view four = take(4);
        for (int i = 3; i >= 0; --i) field.value = field.value << 8 | uint8_t(four[size_t(i)]);
        break;
      }
      default:
        fail("an unknown wire type");
    }
    return field;
  }

 private:
  [[noreturn]] void fail(std::string_view found) const {
    throw InputError(fmt::format("{}: not a SentencePiece model: {} at byte {} of a message of {}", where_,
                                 found, at_, bytes_.size()));
  }
  uint64_t read_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) fail("a number cut short");
      uint8_t byte = bytes_[at_++];
      value |= uint64_t(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return value;
    }
    fail("a number of more than 64 bits");
  }
  std::string_view take(uint64_t length) {
    if (length > bytes_.size() - at_) fail(fmt::format("a field of {} bytes cut short", length));
    std::string_view taken = bytes_.substr(at_, length);
    at_ += length;
    return taken;
  }

  std::string_view bytes_;
  const std::string& where_;
  size_t at_ = 0;
};

Piece read_piece(std::string_view bytes, size_t index, const std::string& where) {
  Piece piece{"", 0, SentencePieceModel::normal};
  Message message(bytes, where);
  while (auto field = message.next()) {
    if (field->number == 1 && field->wire == length_delimited) piece.text = field->bytes;
    if (field->number == 2 && field->wire == fixed32)
      piece.score = std::bit_cast<float>(uint32_t(field->value));
    if (field->number == 3 && field->wire == varint)
      piece.type = field->value > 100 ? 100 : int32_t(field->value);
  }
  std::string name = fmt::format("{}: piece {}", where, index);
  if (piece.text.empty()) throw InputError(name + " is empty");
  if (piece.text.size() > 4096)
    throw InputError(fmt::format("{} has {} bytes, expected at most 4096", name, piece.text.size()));
  if (invalid_utf8(piece.text) || piece.text.find('\0') != piece.text.npos)
    throw InputError(name + " is not valid UTF-8 without NUL");
  if (!std::isfinite(piece.score)) throw InputError(name + " has a score that is not finite");
  if (piece.type < SentencePieceModel::normal || piece.type > SentencePieceModel::byte)
    throw InputError(fmt::format("{} has type {}, expected 1 to 6", name, piece.type));
  return piece;
}

/// Settings that decide whether words can be encoded apart; the defaults are the format's.
struct Settings {
  bool bpe = false, byte_fallback = false, space_as_suffix = false;
  bool charsmap = false, keeps_spaces = false, escapes_spaces = true;
};

void read_trainer(std::string_view bytes, Settings& settings, const std::string& where) {
  Message message(bytes, where);
  while (auto field = message.next()) {
    if (field->wire != varint) continue;
    if (field->number == 3) {
      if (field->value != 1 && field->value != 2)
        throw InputError(
            fmt::format("{}: model type {}, expected 1 (unigram) or 2 (BPE)", where, field->value));
      settings.bpe = field->value == 2;
    }
    if (field->number == 24) settings.space_as_suffix = field->value != 0;
    if (field->number == 35) settings.byte_fallback = field->value != 0;
  }
}

void read_normalizer(std::string_view bytes, Settings& settings, bool& add_dummy_prefix,
                     const std::string& where) {
  Message message(bytes, where);
  while (auto field = message.next()) {
    if (field->number == 2 && field->wire == length_delimited) {
      check_charsmap(field->bytes, where);
      settings.charsmap |= !field->bytes.empty();
    }
    if (field->wire != varint) continue;
    if (field->number == 3) add_dummy_prefix = field->value != 0;
    if (field->number == 4) settings.keeps_spaces = field->value == 0;
    if (field->number == 5) settings.escapes_spaces = field->value != 0;
  }
}

constexpr std::string_view kSpaceMark = "\u2581";

/// A space inside the piece after something else.
bool reaches_over_words(std::string_view piece) {
  while (piece.starts_with(kSpaceMark)) piece.remove_prefix(kSpaceMark.size());
  return piece.find(kSpaceMark) != piece.npos;
}

bool words_apart(const Settings& settings, const std::vector<Piece>& pieces) {
  return settings.bpe && settings.byte_fallback && !settings.space_as_suffix && !settings.charsmap &&
         settings.keeps_spaces && settings.escapes_spaces &&
         std::none_of(pieces.begin(), pieces.end(),
                      [](const Piece& p) { return reaches_over_words(p.text); });
}

/// The library keeps 64 matches of user-defined pieces at a place and does not look whether there are more.
void check_nesting(const std::vector<Piece>& pieces, const std::string& where) {
  std::vector<std::string_view> texts, open;
  for (const Piece& piece : pieces)
    if (piece.type == SentencePieceModel::user_defined) texts.push_back(piece.text);
  std::sort(texts.begin(), texts.end());
  for (std::string_view text : texts) {
    while (!open.empty() && !text.starts_with(open.back())) open.pop_back();
    open.push_back(text);
    if (open.size() > 64)
      throw InputError(fmt::format("{}: more than 64 user-defined pieces begin with one another", where));
  }
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, field << 3 | varint);
  put_varint(out, value);
}
void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_varint(out, field << 3 | length_delimited);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_float(std::string& out, uint32_t field, float value) {
  put_varint(out, field << 3 | fixed32);
  auto bits = std::bit_cast<uint32_t>(value);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view proto, const std::string& where) {
  SentencePieceModel model;
  Settings settings, ignored;
  bool ignored_prefix;
  Message message(proto, where);
  while (auto field = message.next()) {
    if (field->wire != length_delimited) continue;
    if (field->number == 1) model.pieces.push_back(read_piece(field->bytes, model.pieces.size(), where));
    if (field->number == 2) read_trainer(field->bytes, settings, where);
    if (field->number == 3) read_normalizer(field->bytes, settings, model.add_dummy_prefix, where);
    if (field->number == 5) read_normalizer(field->bytes, ignored, ignored_prefix, where);  // for decoding
  }
  if (model.pieces.empty()) throw InputError(fmt::format("{}: a SentencePiece model without pieces", where));
  check_nesting(model.pieces, where);
  model.word_by_word = words_apart(settings, model.pieces);
  return model;
}

std::string without_dummy_prefix(std::string proto) {
  std::string normalizer;
  put_number(normalizer, 3, 0);
  put_bytes(proto, 3, normalizer);  // a message given again adds to the first
  return proto;
}

std::string write_sentencepiece(const SentencePieceModel& model) {
  std::string out;
  bool bytes = false;
  for (const Piece& piece : model.pieces) {
    std::string message;
    put_bytes(message, 1, piece.text);
    put_float(message, 2, piece.score);
    put_number(message, 3, uint64_t(uint32_t(piece.type)));
    put_bytes(out, 1, message);
    bytes |= piece.type == SentencePieceModel::byte;
  }
  std::string trainer;
  put_number(trainer, 3, 2);       // model_type: BPE
  put_number(trainer, 35, bytes);  // byte_fallback
  put_bytes(out, 2, trainer);
  std::string normalizer;
  put_bytes(normalizer, 1, "identity");
  put_number(normalizer, 3, model.add_dummy_prefix);
  put_number(normalizer, 4, 0);  // remove_extra_whitespaces
  put_number(normalizer, 5, 1);  // escape_whitespaces
  put_bytes(out, 3, normalizer);
  return out;
}

}  // namespace kvcost
