#include "src/harness/stream_measure.h"

#include <ATen/Context.h>

#include <algorithm>
#include <chrono>

#include "src/base/memory.h"
#include "src/harness/cache_shape.h"
#include "src/harness/scoring.h"

namespace kvcost {

Unit measure_stream(const Decoder& decoder, std::span<const int32_t> ids, int64_t chunk, LivingCache& cache,
                    const std::function<void(int64_t tokens, double seconds)>& told) {
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  forget_peak_memory();
  const int64_t queries = static_cast<int64_t>(ids.size()) - 1;  // the last token predicts nothing
  // Every token but the first is scored.
  cache.begin(cache_shape(decoder.config(), queries + 1, 1));
  Unit unit;
  for (int64_t first = 0; first < queries; first += chunk) {
    const int64_t count = std::min(chunk, queries - first);
    Pass pass;
    pass.ids = ids.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    pass.offset = first;
    pass.wanted_to = count;
    pass.cache = cache.function();
    const at::Tensor hidden = decoder.hidden(pass);
    const auto logits = [&](int64_t begin, int64_t end, at::Tensor& out) {
      decoder.logits(hidden, begin, end, out);
    };
    const std::span<const int32_t> targets =
        ids.subspan(static_cast<size_t>(first) + 1, static_cast<size_t>(count));
    const std::vector<double> losses = losses_bits(logits, decoder.config().vocabulary, targets);
    unit.loss_bits.insert(unit.loss_bits.end(), losses.begin(), losses.end());
    told(first + count, seconds());
  }
  const LivingReport report = cache.report();
  unit.tokens_kept = report.tokens_kept;
  unit.evicted = report.evicted;
  unit.cache_bytes = report.memory_bytes;
  unit.peak_bytes = peak_memory_bytes();
  unit.chunk = chunk;
  unit.seconds = seconds();
  unit.capability = at::get_cpu_capability();
  return unit;
}

}  // namespace kvcost
