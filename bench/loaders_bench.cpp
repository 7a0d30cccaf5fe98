// How fast weights are decoded: one thread, from memory. Bytes are those of the fp32 numbers made.
#include <benchmark/benchmark.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "src/model/formats/safetensors.h"
#include "src/model/formats/tensor_type.h"

namespace kvcost {
namespace {

// A layer's matrix, as the loader meets it: 4 MB of fp32.
constexpr int64_t kNumbers = int64_t{1} << 20;

void decode(benchmark::State& state, TensorType type) {
  const TensorTypeInfo& entry = info(type);
  std::mt19937 random(1);
  std::vector<std::byte> blocks(static_cast<size_t>(kNumbers / entry.block_numbers * entry.block_bytes));
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  std::vector<float> out(static_cast<size_t>(kNumbers));
  for (auto _ : state) {
    dequantize(type, blocks.data(), kNumbers, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kNumbers * static_cast<int64_t>(sizeof(float)));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const TensorTypeInfo& entry : tensor_types()) {
    TensorType type = entry.type;
    benchmark::RegisterBenchmark(("decode/" + std::string(entry.name)).c_str(),
                                 [type](benchmark::State& state) { decode(state, type); });
  }
  return true;
}();

/// Opening a file of many small tensors and copying them all: what reading a unit of results costs.
void read_safetensors(benchmark::State& state) {
  auto path = std::filesystem::temp_directory_path() / "kvcost_loaders_bench.safetensors";
  SafetensorsWriter writer;
  std::vector<float> values(4096, 1.0F);
  for (int i = 0; i < 256; ++i) writer.add("tensor." + std::to_string(i), values);
  writer.write(path);
  for (auto _ : state) {
    auto file = SafetensorsFile::open(path);
    for (const std::string& name : file.names()) benchmark::DoNotOptimize(file.numbers<float>(name));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(std::filesystem::file_size(path)));
  std::filesystem::remove(path);
}
BENCHMARK(read_safetensors);

}  // namespace
}  // namespace kvcost

BENCHMARK_MAIN();
