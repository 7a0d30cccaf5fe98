#include "src/model/formats/read_json.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "src/base/error.h"
#include "src/base/printable.h"

namespace kvcost {

nlohmann::json read_json(std::string_view text, const std::string& origin) {
  using Json = nlohmann::json;
  constexpr int kDeepest = 32;
  std::vector<std::set<std::string>> keys;
  auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) {
      throw InputError(fmt::format("{}: JSON nested deeper than {} levels", origin, kDeepest));
    }
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw InputError(
          fmt::format("{}: the key '{}' is there twice", origin, printable(value.get<std::string>())));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    throw InputError(fmt::format("{}: not valid JSON at byte {}", origin, error.byte));
  } catch (const Json::exception&) {
    throw InputError(fmt::format("{}: a number that no double can hold", origin));
  }
}

}  // namespace kvcost
