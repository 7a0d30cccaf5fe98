#pragma once
#include "src/model/formats/gguf.h"
#include "src/text/tokenizer.h"

namespace kvcost {

/// The "tokenizer.ggml.*" metadata of a GGUF file. InputError naming the key if one is of another kind or the
/// tokenizer's model is missing; whether its values make sense is for make_gguf_tokenizer() to say.
GgufTokenizerData gguf_tokenizer_data(const Gguf& file);

}  // namespace kvcost
