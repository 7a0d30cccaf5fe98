#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include "src/model/attention.h"

namespace kvcost {
namespace {

/// Shapes {query_heads, kv_heads, tokens}; modes of what the cache holds.
enum Mode { kFull, kWindow, kScattered, kRounded, kRecentExact };

void attention(benchmark::State& state) {
  const int64_t query_heads = state.range(0), kv_heads = state.range(1), tokens = state.range(2), d = 64;
  const int64_t mode = state.range(3);
  at::manual_seed(1);
  at::Tensor q = at::randn({tokens, query_heads, d}), out = at::empty_like(q);
  CachedTokens cache;
  cache.k = at::randn({tokens, kv_heads, d});
  cache.v = at::randn({tokens, kv_heads, d});
  at::Tensor position = at::arange(tokens, at::kInt).expand({kv_heads, tokens});
  if (mode == kWindow) cache.evicted_at = (position + 512).contiguous();
  if (mode == kScattered)
    cache.evicted_at = (position + 1 + at::randint(1024, {kv_heads, tokens}, at::kInt)).contiguous();
  if (mode == kRounded || mode == kRecentExact) {
    cache.k_rounded = cache.k + 0.01;
    cache.v_rounded = cache.v + 0.01;
  }
  if (mode == kRecentExact) cache.k_rounded_at = cache.v_rounded_at = (position + 128).contiguous();
  for (auto _ : state) attend(q, 0, cache, out);
  // Both products of the causal half, which is what the full cache must pay.
  state.counters["GFLOPS"] =
      benchmark::Counter(2e-9 * double(tokens) * double(tokens) * double(d * query_heads),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* bench) {
  for (int64_t mode : {kFull, kWindow, kScattered, kRounded, kRecentExact}) {
    bench->Args({9, 3, 2048, mode});
    bench->Args({14, 2, 2048, mode});
  }
}

BENCHMARK(attention)
    ->Apply(shapes)
    ->ArgNames({"q", "kv", "T", "mode"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace kvcost
BENCHMARK_MAIN();
