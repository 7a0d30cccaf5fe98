#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "src/text/tokenizer.h"
#include "src/text/tokenizer_config.h"

namespace kvcost {

/// A Hugging Face tokenizer.json whose model is BPE. InputError naming `file`, what was found and what is
/// supported.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const TokenizerConfig& config,
                                                const std::string& file);

}  // namespace kvcost
