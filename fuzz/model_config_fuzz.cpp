#include "src/base/error.h"
#include "src/model/formats/read_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto config = kvcost::parse_hf_config({reinterpret_cast<const char*>(data), size}, "config.json");
    if (config.layers < 100 && config.parameters() <= 0) __builtin_trap();
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
