#pragma once
#include <memory>
#include <optional>
#include <string>

#include "src/text/tokenizer.h"

namespace kvcost {

/// A tokenizer over libsentencepiece, from the bytes of its model file. InputError starting with `where` if
/// the file cannot be used. Where special tokens are taken as such, each stretch between them is a text of
/// its own.
std::unique_ptr<Tokenizer> open_sentencepiece(std::string proto, std::optional<int32_t> bos, std::string hash,
                                              const std::string& where);

/// The same with the model's own BOS ("<s>"), which `add_bos` decides on; unsaid, it is added, as by Llama's
/// tokenizer, for which such files are made.
std::unique_ptr<Tokenizer> open_sentencepiece_file(std::string proto, std::optional<bool> add_bos,
                                                   const std::string& where);

}  // namespace kvcost
