// harness/config/: the files a user writes or keeps: experiments and results. Builds without LibTorch, so
// that fuzzers can.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// Keeps the order in which the user wrote an object's keys: a grid follows it.
using OrderedJson = nlohmann::ordered_json;

/// Parses JSON, comments allowed. Refuses more than 32 levels, 1,000 keys in one object, a key twice, a
/// number beyond int64 or double. InputError: "`what`: line 3, column 7: ...".
OrderedJson parse_bounded_json(std::string_view text, const std::string& what);

/// A value as one short line, for errors.
std::string shown(const nlohmann::json& value);

/// "rows[3].evict" from {"rows", "3", "evict"}; digits-only parts are taken as indices.
std::string joined_path(const std::vector<std::string>& parts);

}  // namespace kvcost
