#pragma once
#include <functional>

#include "src/harness/config/kept_result.h"
#include "src/harness/runner.h"

namespace kvcost {

/// Compares what the rows of an experiment that evict keep, on its model and windows, and writes
/// OUT/NAME-kept.json. Measured at once, not in units: options.store and options.shard are not read.
/// InputError if no row evicts, or more than KeptResult::kMostRows do.
KeptResult run_kept(const Experiment& experiment, const RunOptions& options, RunProgress& progress);

}  // namespace kvcost
