#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/printable.h"
#include "src/text/bpe_tokenizer.h"
#include "src/text/sentencepiece_model.h"
#include "src/text/sentencepiece_tokenizer.h"
#include "src/text/utf8.h"

namespace kvcost {
namespace {

constexpr std::string_view kWhere = "the GGUF file's tokenizer";
constexpr int32_t kControl = 3, kUserDefined = 4;

/// What a `pre` name stands for, as the model's own tokenizer.json has it.
struct Scheme {
  std::vector<std::string> names;
  bool nfc;
  bool digits;
  const char* pattern;  ///< none: GPT-2's
  bool ignore_merges;
  bool add_bos;  ///< if the file does not say
};

const std::vector<Scheme>& schemes() {
  static const std::vector<Scheme> all = {
      {{"gpt-2", "gpt2"}, false, false, nullptr, false, false},
      {{"smollm"}, false, true, nullptr, false, false},
      {{"qwen2"},
       true,
       false,
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       false,
       false},
      {{"llama-bpe", "llama3", "llama-v3"},
       false,
       false,
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       true,
       true},
  };
  return all;
}

const Scheme& find_scheme(const std::string& pre) {
  std::vector<std::string> known;
  for (const Scheme& scheme : schemes())
    for (const std::string& name : scheme.names) {
      if (name == pre) return scheme;
      known.push_back(name);
    }
  if (pre.empty())
    throw InputError(fmt::format(
        "{}: tokenizer.ggml.pre is missing, so how text is split is unknown; convert the model again",
        kWhere));
  throw InputError(fmt::format("{}: tokenizer.ggml.pre is '{}', which is not supported{}", kWhere,
                               printable(pre), hint(pre, known)));
}

std::optional<int32_t> default_bos(const GgufTokenizerData& data, bool add_if_unsaid) {
  if (!data.add_bos.value_or(add_if_unsaid)) return std::nullopt;
  if (!data.bos_id) {
    if (!data.add_bos) return std::nullopt;
    throw InputError(fmt::format("{}: add_bos_token is true but bos_token_id is missing", kWhere));
  }
  if (*data.bos_id < 0 || *data.bos_id >= int64_t(data.tokens.size()))
    throw InputError(fmt::format("{}: bos_token_id is {}, expected one below {}", kWhere, *data.bos_id,
                                 data.tokens.size()));
  return static_cast<int32_t>(*data.bos_id);
}

std::string hash_of(const GgufTokenizerData& data, std::optional<int32_t> bos) {
  std::string all = fmt::format("gguf {} {} {} {} ", data.model, data.pre, bos.value_or(-1),
                                data.add_space_prefix.value_or(true));
  auto strings = [&](const std::vector<std::string>& list) {
    all += fmt::format("{} ", list.size());
    for (const std::string& text : list) all += fmt::format("{} {}", text.size(), text);
  };
  strings(data.tokens);
  strings(data.merges);
  all.append(reinterpret_cast<const char*>(data.scores.data()), data.scores.size() * sizeof(float));
  all.append(reinterpret_cast<const char*>(data.token_types.data()),
             data.token_types.size() * sizeof(int32_t));
  return sha256(all);
}

Bpe::Merges split_merges(const std::vector<std::string>& merges) {
  Bpe::Merges out;
  out.reserve(merges.size());
  for (std::string_view merge : merges) {
    size_t space = merge.find(' ');
    if (space == merge.npos || merge.find(' ', space + 1) != merge.npos)
      throw InputError(fmt::format("{}: merge {} is not two tokens and one space", kWhere, out.size()));
    out.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return out;
}

std::unique_ptr<Tokenizer> make_byte_level(const GgufTokenizerData& data) {
  const Scheme& scheme = find_scheme(data.pre);
  if (data.merges.empty()) throw InputError(fmt::format("{}: tokenizer.ggml.merges is missing", kWhere));
  BpeTokenizer::Parts parts;
  Bpe::Vocabulary vocabulary;
  vocabulary.reserve(data.tokens.size());
  std::vector<AddedToken> added;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    vocabulary[data.tokens[i]] = static_cast<int32_t>(i);
    int32_t type = data.token_types.empty() ? 1 : data.token_types[i];
    if (type != kControl && type != kUserDefined) continue;
    if (invalid_utf8(data.tokens[i]))
      throw InputError(fmt::format("{}: special token {} is not valid UTF-8", kWhere, i));
    added.push_back({.content = data.tokens[i], .id = static_cast<int32_t>(i), .special = type == kControl});
  }
  Bpe::Options options;
  options.ignore_merges = scheme.ignore_merges;
  parts.bpe.emplace(vocabulary, split_merges(data.merges), options, std::string(kWhere));
  parts.raw = AddedTokens(std::move(added));
  if (scheme.nfc) parts.normalizer = Normalizer({{Normalizer::Step::Kind::normal_form, "NFC", ""}});
  if (scheme.digits) parts.splitters.push_back(split_digits(true));
  if (scheme.pattern)
    parts.splitters.push_back(
        split_on_pattern(Pattern(scheme.pattern, data.pre), SplitBehavior::isolated, false));
  parts.splitters.push_back(split_byte_level(false, scheme.pattern == nullptr));
  parts.bos = default_bos(data, scheme.add_bos);
  parts.size = static_cast<int64_t>(data.tokens.size());
  parts.kind = "byte-level BPE";
  parts.hash = hash_of(data, parts.bos);
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> make_sentencepiece(const GgufTokenizerData& data) {
  if (data.scores.size() != data.tokens.size())
    throw InputError(fmt::format("{}: {} scores, expected one for each of {} tokens", kWhere,
                                 data.scores.size(), data.tokens.size()));
  SentencePieceModel model;
  for (size_t i = 0; i < data.tokens.size(); ++i)
    model.pieces.push_back(
        {data.tokens[i], data.scores[i], data.token_types.empty() ? 1 : data.token_types[i]});
  model.add_dummy_prefix = data.add_space_prefix.value_or(true);
  auto bos = default_bos(data, true);
  return open_sentencepiece(write_sentencepiece(model), bos, hash_of(data, bos), std::string(kWhere));
}

}  // namespace

std::unique_ptr<Tokenizer> make_gguf_tokenizer(GgufTokenizerData data) {
  if (data.tokens.empty()) throw InputError(fmt::format("{}: tokenizer.ggml.tokens is missing", kWhere));
  if (data.tokens.size() > (size_t{1} << 26))
    throw InputError(fmt::format("{}: {} tokens, expected at most {}", kWhere, data.tokens.size(), 1 << 26));
  if (!data.token_types.empty() && data.token_types.size() != data.tokens.size())
    throw InputError(fmt::format("{}: {} token types, expected one for each of {} tokens", kWhere,
                                 data.token_types.size(), data.tokens.size()));
  if (data.model == "gpt2") return make_byte_level(data);
  if (data.model == "llama") return make_sentencepiece(data);
  throw InputError(
      fmt::format("{}: tokenizer.ggml.model is '{}', expected gpt2 (byte-level BPE) or llama "
                  "(SentencePiece)",
                  kWhere, data.model));
}

}  // namespace kvcost
