#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "src/cache/living_cache.h"
#include "src/harness/unit_store.h"
#include "src/model/decoder.h"

namespace kvcost {

/// Runs `ids` as one sequence through `cache`, `chunk` tokens at a time, so that memory is bounded by the
/// chunk and what the cache keeps. The unit has the loss of every token but the first. `told` hears after
/// every chunk how many tokens are done. Failure naming the layer on NaN or infinity.
Unit measure_stream(const Decoder& decoder, std::span<const int32_t> ids, int64_t chunk, LivingCache& cache,
                    const std::function<void(int64_t tokens, double seconds)>& told);

}  // namespace kvcost
