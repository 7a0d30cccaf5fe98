#include "src/base/error.h"
#include "src/harness/config/gguf_tokenizer.h"
#include "src/model/formats/sources.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kvcost::Gguf file = kvcost::Gguf::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz.gguf");
    for (const kvcost::GgufTensor& tensor : file.tensors()) {
      // At most two numbers a byte: no allocation can outgrow the input much.
      std::vector<float> values(static_cast<size_t>(tensor.numbers()));
      kvcost::dequantize(tensor.type, tensor.bytes.data(), tensor.numbers(), values.data());
    }
    try {
      kvcost::gguf_tokenizer_data(file);
    } catch (const kvcost::InputError&) {
    }
    auto source = kvcost::open_gguf_weights(std::move(file));
    for (const std::string& name : source->names()) {
      std::vector<float> values(static_cast<size_t>(source->find(name)->numbers()));
      source->read(name, values.data());
    }
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
