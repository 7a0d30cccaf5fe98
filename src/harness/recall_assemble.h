#pragma once
#include <span>
#include <vector>

#include "src/harness/config/recall_result.h"
#include "src/harness/recall_cases.h"
#include "src/harness/unit_store.h"

namespace kvcost {

/// One cell's units beside the full cache's; all three lists in the order of make_recall_cases(). `decided`:
/// one of kDecisionPoints, or "" for a row without a policy.
RecallCell assemble_cell(const std::string& decided, std::span<const RecallCase> cases,
                         std::span<const Unit> row, std::span<const Unit> full);

/// The follow-up's loss in `early` less that in `late`, paired by case.
CaseMean follow_up_price(std::span<const RecallCase> cases, std::span<const Unit> early,
                         std::span<const Unit> late);

}  // namespace kvcost
