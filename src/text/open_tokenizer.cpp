#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/text/sentencepiece_tokenizer.h"
#include "src/text/tokenizer_json.h"

namespace kvcost {

std::unique_ptr<Tokenizer> open_tokenizer_folder(const std::filesystem::path& folder) {
  constexpr size_t largest_file = size_t{512} << 20;
  TokenizerConfig config = read_tokenizer_config(folder);
  std::filesystem::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  if (std::filesystem::exists(json))
    return parse_tokenizer_json(read_text(json, largest_file), config, json.string());
  if (std::filesystem::exists(model))
    return open_sentencepiece_file(read_text(model, largest_file), config.add_bos, model.string());
  throw InputError(
      fmt::format("{}: no tokenizer there, expected tokenizer.json or tokenizer.model", folder.string()));
}

}  // namespace kvcost
