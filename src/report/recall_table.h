#pragma once
#include <string>

#include "src/harness/config/recall_result.h"

namespace kvcost {

/// A recall result as text: what each row costs the two answers, decision point by decision point; what the
/// follow-up pays for a decision made by the first question; the follow-up by the depth of its fact.
std::string recall_table(const RecallResult& result);

}  // namespace kvcost
