#include "src/text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/text/utf8.h"

namespace kvcost {
namespace {

uint64_t pair_key(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

/// code point -> byte of GPT-2's alphabet (-1: none). Printable bytes of Latin-1 are themselves, the others
/// follow from 256 on.
std::array<int16_t, 324> make_alphabet() {
  std::array<int16_t, 324> byte_of;
  byte_of.fill(-1);
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    bool stays = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    byte_of[size_t(stays ? b : next++)] = int16_t(b);
  }
  return byte_of;
}

}  // namespace

std::optional<std::string> spelt_bytes(std::string_view token) {
  static const auto byte_of = make_alphabet();
  if (invalid_utf8(token)) return std::nullopt;
  std::string out;
  for (size_t at = 0; at < token.size();) {
    char32_t c = next_code_point(token, at);
    if (c >= byte_of.size() || byte_of[c] < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte_of[c]));
  }
  return out;
}

Bpe::Bpe(const Vocabulary& vocabulary, const Merges& merges, Options options, const std::string& where)
    : options_(std::move(options)) {
  auto find = [&](std::string_view token, size_t rank) {
    auto found = vocabulary.find(std::string(token));
    if (found == vocabulary.end())
      throw InputError(fmt::format("{}: merge {} needs the token '{}', which is not in the vocabulary", where,
                                   rank, printable(token)));
    return found->second;
  };
  merges_.reserve(merges.size());
  std::string made;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    auto [left, right] = merges[rank];
    made.assign(left).append(right);
    int32_t left_id = find(left, rank), right_id = find(right, rank);
    // A pair given twice counts where it stands last, as in Hugging Face tokenizers.
    merges_[pair_key(left_id, right_id)] = {uint32_t(rank), find(made, rank)};
  }
  if (options_.unknown) {
    auto found = vocabulary.find(*options_.unknown);
    if (found == vocabulary.end())
      throw InputError(fmt::format("{}: the unknown token '{}' is not in the vocabulary", where,
                                   printable(*options_.unknown)));
    unknown_ = found->second;
  }

  bytes_.fill(-1);
  for (const auto& [token, id] : vocabulary) {
    if (!options_.byte_level) {
      size_t end = 0;
      if (!token.empty() && !invalid_utf8(token)) next_code_point(token, end);
      if (options_.ignore_merges || (end > 0 && end == token.size())) tokens_.emplace(token, id);
    } else if (auto bytes = spelt_bytes(token)) {
      if (bytes->size() == 1) bytes_[uint8_t((*bytes)[0])] = id;
      if (options_.ignore_merges) tokens_.emplace(std::move(*bytes), id);
    }
  }
  for (unsigned b = 0; options_.byte_fallback && !options_.byte_level && b < 256; ++b) {
    auto found = vocabulary.find(fmt::format("<0x{:02X}>", b));
    if (found != vocabulary.end()) bytes_[b] = found->second;
  }
}

const Bpe::Merge* Bpe::merge_of(int32_t left, int32_t right) const {
  auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::push_unknown(std::string_view character, std::vector<Symbol>& symbols) const {
  if (unknown_ < 0)
    throw InputError(fmt::format("the tokenizer has no token for the byte 0x{:02X}{} and no unknown token",
                                 uint8_t(character[0]),
                                 character.size() > 1 ? " (and those of its character)" : ""));
  if (options_.fuse_unknown && !symbols.empty() && symbols.back().id == unknown_) return;
  symbols.push_back({unknown_, 0, 0});
}

void Bpe::split_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  for (size_t i = 0; i < word.size(); ++i) {
    if (int32_t id = bytes_[uint8_t(word[i])]; id >= 0)
      symbols.push_back({id, 0, 0});
    else
      push_unknown(word.substr(i, 1), symbols);
  }
}

void Bpe::split_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  std::string character;
  for (size_t at = 0; at < word.size();) {
    size_t begin = at;
    next_code_point(word, at);
    character.assign(word.substr(begin, at - begin));
    if (auto found = tokens_.find(character); found != tokens_.end()) {
      symbols.push_back({found->second, 0, 0});
    } else if (std::all_of(character.begin(), character.end(),
                           [&](char byte) { return bytes_[uint8_t(byte)] >= 0; })) {
      for (char byte : character) symbols.push_back({bytes_[uint8_t(byte)], 0, 0});
    } else {
      push_unknown(character, symbols);
    }
  }
}

void Bpe::merge(std::vector<Symbol>& symbols) const {
  struct Candidate {
    uint32_t rank;
    int32_t at, made;
    bool operator<(const Candidate& other) const {  // the least rank, then the leftmost, comes out first
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::vector<Candidate> found;
  auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[size_t(i)].previous = i - 1;
    symbols[size_t(i)].next = i + 1 < count ? i + 1 : -1;
    if (i + 1 == count) break;
    if (const Merge* m = merge_of(symbols[size_t(i)].id, symbols[size_t(i) + 1].id))
      found.push_back({m->rank, i, m->made});
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(found));
  while (!queue.empty()) {
    Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[size_t(top.at)];
    if (left.id < 0 || left.next < 0) continue;  // joined away since, or now the last
    Symbol& right = symbols[size_t(left.next)];
    const Merge* still = merge_of(left.id, right.id);
    if (!still || still->made != top.made) continue;
    left.id = top.made;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      symbols[size_t(left.next)].previous = top.at;
      if (const Merge* m = merge_of(left.id, symbols[size_t(left.next)].id))
        queue.push({m->rank, top.at, m->made});
    }
    if (left.previous >= 0)
      if (const Merge* m = merge_of(symbols[size_t(left.previous)].id, left.id))
        queue.push({m->rank, left.previous, m->made});
  }
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges)
    if (auto found = tokens_.find(std::string(word)); found != tokens_.end()) {
      ids.push_back(found->second);
      return;
    }
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  options_.byte_level ? split_bytes(word, symbols) : split_characters(word, symbols);
  merge(symbols);
  for (int32_t at = symbols.empty() ? -1 : 0; at >= 0; at = symbols[size_t(at)].next)
    ids.push_back(symbols[size_t(at)].id);
}

}  // namespace kvcost
