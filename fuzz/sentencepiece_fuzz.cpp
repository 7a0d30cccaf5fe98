#include "src/base/error.h"
#include "src/text/sentencepiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto tokenizer =
        kvcost::open_sentencepiece_file({reinterpret_cast<const char*>(data), size}, {}, "fuzz.model");
    for (bool special : {false, true})
      tokenizer->encode("It's  a caf\u00e9\n 12 <s> \u4e2d\U0001F600 aaaa", special);
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
