#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace kvcost {

/// Checks `value` against a JSON Schema (draft 7). InputError for the first, deepest violation, in one line:
/// "`what`: rows[3].exact_last: found \"x\", expected an integer of at least 0 or a list".
void check_schema(const nlohmann::json& value, const nlohmann::json& schema, const std::string& what);

}  // namespace kvcost
