// Every codec over one layer's keys of a whole window, [2048, kv_heads, 64], beside memcpy of the same bytes.
// Bytes per second count what is read and what is written.
#include <benchmark/benchmark.h>

#include <cstring>

#include "src/cache/registry.h"

namespace kvcost {
namespace {

constexpr int64_t kTokens = 2048, kHeadDim = 64;

at::Tensor window(int64_t kv_heads) { return at::randn({kTokens, kv_heads, kHeadDim}, at::kFloat); }

void count_bytes(benchmark::State& state, const at::Tensor& x) {
  state.SetBytesProcessed(state.iterations() * x.numel() * 8);
}

void copy(benchmark::State& state) {
  const at::Tensor x = window(state.range(0));
  for (auto _ : state) {
    at::Tensor out = at::empty_like(x);
    std::memcpy(out.data_ptr(), x.const_data_ptr(), x.numel() * 4);
    benchmark::DoNotOptimize(out);
  }
  count_bytes(state, x);
}
BENCHMARK(copy)->Arg(3)->Arg(8)->UseRealTime();

void round(benchmark::State& state, const char* name, const char* knobs) {
  const at::Tensor x = window(state.range(0));
  nlohmann::json object = nlohmann::json::parse(knobs);
  object["codec"] = name;
  const auto codec = make_codec(object, "keys");
  CacheShape shape;
  shape.kv_heads = state.range(0), shape.head_dim = kHeadDim, shape.tokens = kTokens;
  for (auto _ : state) {
    at::Tensor out = codec->round({x, {}, shape});
    benchmark::DoNotOptimize(out);
  }
  count_bytes(state, x);
}

#define ROUND(codec, name, knobs) \
  BENCHMARK_CAPTURE(round, codec##_##name, #codec, knobs)->Arg(3)->Arg(8)->UseRealTime()
ROUND(minmax, token_64, R"({"bits": 4, "axis": "token", "group": 64})");
ROUND(minmax, token_32, R"({"bits": 4, "axis": "token", "group": 32})");
ROUND(minmax, token_64_fp16, R"({"bits": 4, "axis": "token", "group": 64, "scales": "fp16"})");
ROUND(minmax, token_64_symmetric, R"({"bits": 4, "axis": "token", "group": 64, "symmetric": true})");
ROUND(minmax, token_64_integer_zero, R"({"bits": 4, "axis": "token", "group": 64, "zero": "integer"})");
ROUND(minmax, channel_32, R"({"bits": 2, "axis": "channel", "group": 32})");
ROUND(minmax, channel_32_causal_clip,
      R"({"bits": 2, "axis": "channel", "group": 32, "groups": "causal", "clip": 0.9})");
ROUND(minmax, channel_2048, R"({"bits": 2, "axis": "channel", "group": 2048})");
ROUND(minmax, tensor, R"({"bits": 8, "axis": "tensor"})");
ROUND(fp8, e4m3, R"({"format": "e4m3fn"})");
ROUND(fp8, e5m2, R"({"format": "e5m2"})");
ROUND(fp8, e4m3_token, R"({"format": "e4m3fn", "scale": "token"})");
ROUND(fp8, e4m3_tensor, R"({"format": "e4m3fn", "scale": "tensor"})");
ROUND(mxfp4, blocks, "{}");
ROUND(nvfp4, none, "{}");
ROUND(nvfp4, token, R"({"second": "token"})");
ROUND(nvfp4, tensor, R"({"second": "tensor"})");
ROUND(ggml, q8_0, R"({"type": "q8_0"})");
ROUND(ggml, q5_1, R"({"type": "q5_1"})");
ROUND(ggml, q5_0, R"({"type": "q5_0"})");
ROUND(ggml, q4_1, R"({"type": "q4_1"})");
ROUND(ggml, q4_0, R"({"type": "q4_0"})");

}  // namespace
}  // namespace kvcost

BENCHMARK_MAIN();
