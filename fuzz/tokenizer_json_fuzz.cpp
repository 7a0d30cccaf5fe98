#include "src/base/error.h"
#include "src/text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    auto tokenizer = kvcost::parse_tokenizer_json(json, {}, "fuzz.json");
    for (bool special : {false, true})
      tokenizer->encode("It's  a caf\u00e9\r\n\n 1234 <s> \u0301\u4e2d\U0001F600 <|im_end|>\u180e", special);
  } catch (const kvcost::InputError&) {
  }
  try {
    kvcost::parse_tokenizer_config(json, "fuzz.json");
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
