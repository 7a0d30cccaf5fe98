#include "src/text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/text/bpe_tokenizer.h"

namespace kvcost {
namespace {

Bpe::Vocabulary read_vocabulary(const JsonView& vocab) {
  if (!vocab.raw().is_object()) vocab.expected("an object of tokens and ids");
  Bpe::Vocabulary out;
  out.reserve(vocab.raw().size());
  for (const auto& [token, id] : vocab.raw().items()) {
    if (!id.is_number_integer()) JsonView(id, vocab.where(), "a token").expected("a token id");
    out.emplace(token, JsonView(id, vocab.where(), "a token").id());
  }
  return out;
}

/// Merges as ["a b", ...] or [["a", "b"], ...].
Bpe::Merges read_merges(const JsonView& merges) {
  Bpe::Merges out;
  size_t count = merges.array_size();
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const nlohmann::json& merge = merges.raw()[i];
    if (merge.is_string()) {
      std::string_view text = merge.get_ref<const std::string&>();
      if (i == 0 && text.starts_with("#version")) continue;
      size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos)
        merges.item(i).expected("two tokens and one space");
      out.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      out.emplace_back(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      merges.item(i).expected("\"a b\" or [\"a\", \"b\"]");
    }
  }
  return out;
}

Bpe::Options read_options(const JsonView& model, bool byte_level) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (auto affix = model.find(key); affix && !affix->text().empty())
      affix->expected("none (not supported)");
  if (auto dropout = model.find("dropout"); dropout && dropout->raw() != 0) dropout->expected("no dropout");
  Bpe::Options options;
  options.byte_level = byte_level;
  options.ignore_merges = model.flag("ignore_merges", false);
  options.byte_fallback = model.flag("byte_fallback", false);
  options.fuse_unknown = model.flag("fuse_unk", false);
  if (auto unknown = model.find("unk_token")) options.unknown = unknown->text();
  return options;
}

void read_added_tokens(const JsonView& list, BpeTokenizer::Parts& parts) {
  std::vector<AddedToken> raw, normalized;
  for (size_t i = 0; i < list.array_size(); ++i) {
    JsonView item = list.item(i);
    AddedToken token;
    token.content = item.at("content").text();
    token.id = item.at("id").id();
    token.special = item.flag("special", false);
    token.single_word = item.flag("single_word", false);
    token.left_strip = item.flag("lstrip", false);
    token.right_strip = item.flag("rstrip", false);
    parts.size = std::max<int64_t>(parts.size, int64_t{token.id} + 1);
    bool after = item.flag("normalized", !token.special);
    if (after) token.content = parts.normalizer.apply(token.content);
    (after ? normalized : raw).push_back(std::move(token));
  }
  parts.raw = AddedTokens(std::move(raw));
  parts.normalized = AddedTokens(std::move(normalized));
}

std::optional<int32_t> find_token(const std::string& content, const Bpe::Vocabulary& vocabulary,
                                  const BpeTokenizer::Parts& parts) {
  for (const AddedTokens* added : {&parts.raw, &parts.normalized})
    for (const AddedToken& token : added->tokens())
      if (token.content == content) return token.id;
  auto found = vocabulary.find(content);
  return found == vocabulary.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const TokenizerConfig& config,
                                                const std::string& file) {
  nlohmann::json document = parse_json(json, file);
  JsonView root(document, file);
  JsonView model = root.at("model");
  if (auto type = model.find("type"); type && type->text() != "BPE") type->expected("BPE");

  BpeTokenizer::Parts parts;
  bool byte_level = false;
  if (auto stages = root.find("pre_tokenizer")) {
    PreTokenizer read = read_pre_tokenizer(*stages);
    parts.splitters = std::move(read.stages);
    byte_level = read.byte_level;
  }
  if (auto steps = root.find("normalizer")) parts.normalizer = read_normalizer(*steps);

  Bpe::Vocabulary vocabulary = read_vocabulary(model.at("vocab"));
  for (const auto& [token, id] : vocabulary) parts.size = std::max<int64_t>(parts.size, int64_t{id} + 1);
  parts.bpe.emplace(vocabulary, read_merges(model.at("merges")), read_options(model, byte_level), file);
  if (auto added = root.find("added_tokens")) read_added_tokens(*added, parts);

  if (auto post = root.find("post_processor")) parts.bos = post_processor_bos(*post);
  // What tokenizer_config.json states outright replaces the template, as in transformers.
  if (config.add_bos)
    parts.bos =
        *config.add_bos && config.bos_token ? find_token(*config.bos_token, vocabulary, parts) : std::nullopt;
  if (config.add_bos.value_or(false) && config.bos_token && !parts.bos)
    throw InputError(fmt::format("{}: bos_token of tokenizer_config.json is not among its tokens", file));
  if (parts.bos && *parts.bos >= parts.size)
    throw InputError(fmt::format("{}: BOS is token {}, expected one below {}", file, *parts.bos, parts.size));
  parts.kind = byte_level ? "byte-level BPE" : "BPE";
  parts.hash = sha256(fmt::format("tokenizer.json {} {}", sha256(json), parts.bos.value_or(-1)));
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace kvcost
