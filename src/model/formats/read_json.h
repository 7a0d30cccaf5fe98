#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvcost {

/// Parses JSON of the model files. InputError, naming `origin`, if it is not JSON, is nested deeper than 32
/// levels (the library recurses over what it has parsed) or has a key twice (it would keep the last).
nlohmann::json read_json(std::string_view text, const std::string& origin);

}  // namespace kvcost
