#pragma once
#include <optional>

#include "src/harness/config/experiment.h"
#include "src/harness/config/stream_result.h"
#include "src/harness/runner.h"

namespace kvcost {

/// Tokens a block of positions in a stream's result.
inline constexpr int64_t kStreamBlock = 1024;

/// Runs the rows of a stream experiment that the store does not have yet, the full cache first and no further
/// than its limit; rows are what shards share. Writes OUT/NAME.json and OUT/NAME.safetensors (per-token
/// losses) and returns the result if all rows are there, nullopt if other shards still have to. InputError if
/// the experiment asks no stream.
std::optional<StreamResult> run_stream(const Experiment& experiment, const RunOptions& options,
                                       RunProgress& progress);

}  // namespace kvcost
