#include "src/base/error.h"
#include "src/harness/config/kept_result.h"
#include "src/harness/config/result_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    kvcost::parse_result(text, "fuzz.json");
  } catch (const kvcost::InputError&) {
  }
  try {
    kvcost::parse_kept_result(text, "fuzz.json");
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
