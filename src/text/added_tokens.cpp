#include "src/text/added_tokens.h"

#include <algorithm>

#include "src/text/utf8.h"

namespace kvcost {
namespace {

/// Where the code point that ends at `end` begins.
size_t previous(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (text[end] & 0xC0) == 0x80);
  return end;
}

bool word_before(std::string_view text, size_t at) {
  if (at == 0) return false;
  size_t begin = previous(text, at);
  return is_word_character(next_code_point(text, begin));
}

bool word_after(std::string_view text, size_t at) {
  return at < text.size() && is_word_character(next_code_point(text, at));
}

size_t skip_spaces_back(std::string_view text, size_t at, size_t lowest) {
  while (at > lowest) {
    size_t begin = previous(text, at), here = begin;
    if (!is_white_space(next_code_point(text, here))) break;
    at = begin;
  }
  return std::max(at, lowest);
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    size_t next = at;
    if (!is_white_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    by_byte_[uint8_t(tokens_[i].content[0])].push_back(i);
    any_plain_ |= !tokens_[i].special;
  }
  for (auto& list : by_byte_)
    std::stable_sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      return tokens_[a].content.size() > tokens_[b].content.size();
    });
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t at) const {
  for (uint32_t index : by_byte_[uint8_t(text[at])])
    if (text.substr(at).starts_with(tokens_[index].content)) return &tokens_[index];
  return nullptr;
}

std::vector<AddedTokens::Stretch> AddedTokens::find(std::string_view text, bool special) const {
  std::vector<Stretch> out;
  size_t covered = 0;
  bool any = special ? !tokens_.empty() : any_plain_;
  for (size_t at = 0; any && at < text.size();) {
    const AddedToken* token = longest_at(text, at);
    if (!token) {
      ++at;
      continue;
    }
    // As Hugging Face tokenizers: a token not wanted here still hides shorter ones, and is plain text.
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->special && !special) continue;
    if (token->single_word && (word_before(text, begin) || word_after(text, end))) continue;
    if (token->left_strip) begin = skip_spaces_back(text, begin, covered);
    if (token->right_strip) end = skip_spaces(text, end);
    begin = std::max(begin, covered);
    if (end <= begin) continue;
    if (begin > covered) out.push_back({text.substr(covered, begin - covered), -1});
    out.push_back({text.substr(begin, end - begin), token->id});
    covered = end;
  }
  if (covered < text.size()) out.push_back({text.substr(covered), -1});
  return out;
}

}  // namespace kvcost
