#include "src/base/error.h"
#include "src/harness/config/stream_result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kvcost::parse_stream_result({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
