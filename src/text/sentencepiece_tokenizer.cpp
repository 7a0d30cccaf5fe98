#include "src/text/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/printable.h"
#include "src/text/added_tokens.h"
#include "src/text/bpe_tokenizer.h"
#include "src/text/sentencepiece_model.h"
#include "src/text/utf8.h"
#include "src/text/word_cache.h"

namespace kvcost {
namespace {

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& proto, std::optional<int32_t> bos, std::string hash,
                         const std::string& where)
      : where_(where), bos_(bos), hash_(std::move(hash)) {
    std::vector<AddedToken> special;
    SentencePieceModel model = read_sentencepiece(proto, where);
    for (size_t i = 0; i < model.pieces.size(); ++i)
      if (auto type = model.pieces[i].type;
          type == SentencePieceModel::control || type == SentencePieceModel::unknown)
        special.push_back({.content = model.pieces[i].text, .id = int32_t(i), .special = true});
    special_ = AddedTokens(std::move(special));
    word_by_word_ = model.word_by_word;
    prefix_ = model.add_dummy_prefix;
    auto status = processor_.LoadFromSerializedProto(word_by_word_ ? without_dummy_prefix(proto) : proto);
    if (!status.ok())
      throw InputError(fmt::format("{}: not a SentencePiece model: {}", where, printable(status.ToString())));
  }

  std::vector<int32_t> encode(std::string_view text, bool special_tokens) const override {
    require_utf8(text);
    std::vector<int32_t> ids;
    WordCache cache;
    for (const auto& stretch : special_.find(text, special_tokens)) {
      if (stretch.id >= 0)
        ids.push_back(stretch.id);
      else if (word_by_word_)
        encode_words(stretch.text, cache, ids);
      else
        encode_whole(stretch.text, ids);
    }
    return ids;
  }

  std::optional<int32_t> default_bos() const override { return bos_; }
  int64_t size() const override { return processor_.GetPieceSize(); }
  std::string describe() const override { return describe_tokenizer("SentencePiece", size()); }
  std::string hash() const override { return hash_; }

  void use_own_bos() {
    if (int id = processor_.bos_id(); id >= 0) bos_ = id;
  }

 private:
  void encode_whole(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> part;
    auto status = processor_.Encode(text, &part);
    // The library accepts some broken models when it loads them, and finds out here.
    if (!status.ok())
      throw InputError(fmt::format("{}: cannot encode the text: {}", where_, printable(status.ToString())));
    ids.insert(ids.end(), part.begin(), part.end());
  }

  /// The same ids as encode_whole's, several times faster: the library's time goes into long texts.
  void encode_words(std::string_view text, WordCache& cache, std::vector<int32_t>& ids) const {
    auto append = [&](std::string_view word) {
      cache.append(word, ids, [&](std::string_view w, std::vector<int32_t>& out) { encode_whole(w, out); });
    };
    size_t begin = 0;
    auto word_end = [&] {
      size_t at = text.find(' ', begin + 1);
      while (at != text.npos && is_space_before(text, at)) at = text.find(' ', at + 1);
      return std::min(at, text.size());
    };
    if (prefix_) {
      std::string first(1, ' ');
      append(first.append(text.substr(0, word_end())));
      begin = word_end();
    }
    for (size_t end; begin < text.size(); begin = end) {
      end = word_end();
      append(text.substr(begin, end - begin));
    }
  }

  static bool is_space_before(std::string_view text, size_t at) {
    return text[at - 1] == ' ' || text.substr(0, at).ends_with("\u2581");
  }

  sentencepiece::SentencePieceProcessor processor_;
  bool word_by_word_ = false, prefix_ = false;
  AddedTokens special_;
  std::string where_;
  std::optional<int32_t> bos_;
  std::string hash_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(std::string proto, std::optional<int32_t> bos, std::string hash,
                                              const std::string& where) {
  return std::make_unique<SentencePieceTokenizer>(proto, bos, std::move(hash), where);
}

std::unique_ptr<Tokenizer> open_sentencepiece_file(std::string proto, std::optional<bool> add_bos,
                                                   const std::string& where) {
  bool add = add_bos.value_or(true);
  std::string hash = sha256(fmt::format("sentencepiece {} {}", sha256(proto), add));
  auto tokenizer = std::make_unique<SentencePieceTokenizer>(proto, std::nullopt, std::move(hash), where);
  if (add) tokenizer->use_own_bos();
  return tokenizer;
}

}  // namespace kvcost
