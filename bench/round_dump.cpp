// Rounds dumped keys and values with a registered codec, for bench/rounding_against_reference.py.
//   round_dump FORMS.json IN.safetensors OUT.safetensors
// FORMS is a list of codec objects ("codec" and its knobs). IN holds F32 tensors [tokens, kv_heads,
// head_dim], and NAME.bias [kv_heads, head_dim] where a key bias goes with NAME. OUT gets, for tensor NAME
// and form number i, "NAME/i" = x' and "NAME/i/packed" = the packed bytes.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/cache/registry.h"
#include "src/model/formats/safetensors.h"

namespace kvcost {
namespace {

at::Tensor read(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> numbers = file.numbers<float>(name);
  return at::tensor(numbers).view(file.tensor(name).shape);
}

void round_all(const nlohmann::json& forms, const SafetensorsFile& in, SafetensorsWriter& out) {
  for (const std::string& name : in.names()) {
    if (name.ends_with(".bias")) continue;
    CodecInput input;
    input.x = read(in, name);
    if (input.x.dim() != 3) throw InputError(name + ": expected [tokens, kv_heads, head_dim]");
    if (in.find(name + ".bias") != nullptr) input.bias = read(in, name + ".bias");
    input.shape.layers = 1;
    input.shape.tokens = input.x.size(0);
    input.shape.query_heads = input.shape.kv_heads = input.x.size(1);
    input.shape.head_dim = input.x.size(2);
    for (size_t i = 0; i < forms.size(); ++i) {
      auto codec = make_codec(forms[i], fmt::format("forms[{}]", i));
      at::Tensor rounded = codec->round(input).contiguous();
      std::vector<std::byte> packed = codec->pack(input);
      std::string key = fmt::format("{}/{}", name, i);
      out.add(key, input.x.sizes().vec(),
              std::span<const float>(rounded.const_data_ptr<float>(), static_cast<size_t>(rounded.numel())));
      out.add_bytes(key + "/packed", "U8", {static_cast<int64_t>(packed.size())}, packed);
    }
  }
}

}  // namespace
}  // namespace kvcost

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: round_dump FORMS.json IN.safetensors OUT.safetensors\n", stderr);
    return 2;
  }
  try {
    kvcost::SafetensorsWriter out;
    kvcost::round_all(nlohmann::json::parse(kvcost::read_text(argv[1])),
                      kvcost::SafetensorsFile::open(argv[2]), out);
    out.write(argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "round_dump: %s\n", error.what());
    return 1;
  }
  return 0;
}
