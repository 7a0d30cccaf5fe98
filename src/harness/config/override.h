#pragma once
#include <string>

#include "src/harness/config/json_text.h"

namespace kvcost {

/// Applies "rows[3].evict.capacity=64" to `config`: the value is JSON, or else bare text. Objects on the way
/// are made; list entries must be there. InputError naming the assignment.
void apply_override(OrderedJson& config, const std::string& assignment);

}  // namespace kvcost
