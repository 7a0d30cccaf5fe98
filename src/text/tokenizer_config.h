#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "src/text/json_view.h"

namespace kvcost {

/// What a folder's tokenizer_config.json says of BOS; all absent if there is no such file.
struct TokenizerConfig {
  std::optional<bool> add_bos = {};
  std::optional<std::string> bos_token = {};
};

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& file);
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

/// The one token that a tokenizer.json's "post_processor" puts before a text, if any. InputError naming
/// post-processors that are not supported.
std::optional<int32_t> post_processor_bos(const JsonView& post_processor);

}  // namespace kvcost
