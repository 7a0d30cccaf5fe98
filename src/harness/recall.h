#pragma once
#include <optional>

#include "src/harness/config/experiment.h"
#include "src/harness/config/recall_result.h"
#include "src/harness/runner.h"

namespace kvcost {

/// Measures what the store does not have yet of a recall experiment, case by case, the full cache first;
/// every row with a policy three times, decided before either question, after the first, after both. To
/// `progress` a case at one depth is a window. Writes OUT/NAME.json and returns the result if all units are
/// there, nullopt if other shards still have to. InputError if the experiment asks no recall.
std::optional<RecallResult> run_recall(const Experiment& experiment, const RunOptions& options,
                                       RunProgress& progress);

}  // namespace kvcost
