#pragma once
#include <string>
#include <vector>

#include "src/harness/config/json_text.h"

namespace kvcost {

/// A row with lists in it (in evict, keys, values or as exact_last) as one row for each combination, the
/// first list written varying slowest, with "{evict.capacity}" and the like in the name filled in.
/// InputError if there are more than `most` of them, a list is empty or a name names nothing.
std::vector<nlohmann::json> expand_row(const OrderedJson& row, const std::string& path, size_t most);

}  // namespace kvcost
