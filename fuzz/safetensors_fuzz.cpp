#include "src/base/error.h"
#include "src/model/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto file = kvcost::SafetensorsFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    kvcost::SafetensorsWriter writer;
    for (const std::string& name : file.names()) {
      const kvcost::SafetensorsTensor& tensor = file.tensor(name);
      writer.add_bytes(name, tensor.dtype, tensor.shape, file.bytes(name));
      if (tensor.dtype == "F32") file.numbers<float>(name);
    }
    for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
    std::string content = writer.content();
    auto again = kvcost::SafetensorsFile::parse(std::as_bytes(std::span(content)), "written");
    if (again.metadata() != file.metadata() || again.names().size() != file.names().size()) __builtin_trap();
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
