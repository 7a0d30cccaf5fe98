#include "src/text/tokenizer_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"

namespace kvcost {
namespace {

std::optional<int32_t> template_bos(const JsonView& processor) {
  JsonView pieces = processor.at("single");
  std::optional<int32_t> bos;
  for (size_t i = 0; i < pieces.array_size(); ++i) {
    JsonView piece = pieces.item(i);
    if (piece.find("Sequence")) return bos;
    JsonView name = piece.at("SpecialToken").at("id");
    JsonView ids = processor.at("special_tokens").at(name.text().c_str()).at("ids");
    if (bos || ids.array_size() != 1) piece.expected("at most one token before the text");
    bos = ids.item(0).id();
  }
  pieces.expected("a template that holds the text (a Sequence)");
}

std::optional<int32_t> find_bos(const JsonView& processor, int depth) {
  JsonView type = processor.at("type");
  const std::string& name = type.text();
  if (name == "ByteLevel") return std::nullopt;  // moves offsets only
  if (name == "TemplateProcessing") return template_bos(processor);
  if (name != "Sequence" || depth > 8)
    type.expected("a supported post-processor: TemplateProcessing, ByteLevel or a Sequence of them");
  JsonView list = processor.at("processors");
  std::optional<int32_t> bos;
  for (size_t i = 0; i < list.array_size(); ++i) {
    auto found = find_bos(list.item(i), depth + 1);
    if (found && bos) list.item(i).expected("at most one token before the text");
    if (found) bos = found;
  }
  return bos;
}

}  // namespace

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& file) {
  nlohmann::json document = parse_json(json, file);
  JsonView root(document, file);
  TokenizerConfig config;
  if (auto add = root.find("add_bos_token")) config.add_bos = add->boolean();
  if (auto bos = root.find("bos_token"))
    config.bos_token = bos->raw().is_object() ? bos->at("content").text() : bos->text();
  return config;
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return {};
  return parse_tokenizer_config(read_text(path, size_t{64} << 20), path.string());
}

std::optional<int32_t> post_processor_bos(const JsonView& post_processor) {
  return find_bos(post_processor, 0);
}

}  // namespace kvcost
