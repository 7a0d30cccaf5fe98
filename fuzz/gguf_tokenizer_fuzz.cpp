#include <fuzzer/FuzzedDataProvider.h>

#include "src/base/error.h"
#include "src/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider in(data, size);
  kvcost::GgufTokenizerData tokenizer;
  tokenizer.model = in.PickValueInArray({"gpt2", "llama", "bert"});
  tokenizer.pre = in.PickValueInArray({"qwen2", "llama-bpe", "smollm", "gpt-2", "?"});
  if (in.ConsumeBool()) tokenizer.add_bos = in.ConsumeBool();
  if (in.ConsumeBool()) tokenizer.bos_id = in.ConsumeIntegral<int64_t>();
  if (in.ConsumeBool()) tokenizer.add_space_prefix = in.ConsumeBool();
  while (in.remaining_bytes() > 0) {
    std::string text = in.ConsumeRandomLengthString(64);
    switch (in.ConsumeIntegralInRange(0, 3)) {
      case 0:
        tokenizer.merges.push_back(text);
        break;
      case 1:
        tokenizer.scores.push_back(in.ConsumeFloatingPoint<float>());
        break;
      default:
        tokenizer.tokens.push_back(text);
        tokenizer.token_types.push_back(in.ConsumeIntegralInRange(0, 7));
        tokenizer.scores.push_back(in.ConsumeFloatingPoint<float>());
    }
  }
  try {
    auto made = kvcost::make_gguf_tokenizer(std::move(tokenizer));
    for (bool special : {false, true}) made->encode("It's  a caf\u00e9\n 12 <s> \u4e2d aaaa", special);
  } catch (const kvcost::InputError&) {
  }
  return 0;
}
