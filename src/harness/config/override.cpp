#include "src/harness/config/override.h"

#include <fmt/format.h>

#include <charconv>

#include "src/base/error.h"

namespace kvcost {
namespace {

struct Step {
  std::string name;  ///< empty: an index
  size_t index = 0;
};

std::vector<Step> steps_of(std::string_view path, const std::string& what) {
  std::vector<Step> steps;
  size_t at = 0;
  while (at < path.size()) {
    if (path[at] == '[') {
      size_t close = path.find(']', at), index = 0;
      auto digits = path.substr(at + 1, close == path.npos ? path.npos : close - at - 1);
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      if (close == path.npos || error != std::errc() || end != digits.data() + digits.size()) {
        throw InputError(fmt::format("{}: expected a number in [ ]", what));
      }
      steps.push_back({"", index});
      at = close + 1;
      continue;
    }
    if (!steps.empty()) {
      if (path[at] != '.') throw InputError(fmt::format("{}: expected '.' or '[' after ']'", what));
      ++at;
    }
    size_t end = std::min(path.find_first_of(".[", at), path.size());
    if (end == at) throw InputError(fmt::format("{}: a name is missing", what));
    steps.push_back({std::string(path.substr(at, end - at)), 0});
    at = end;
  }
  if (steps.empty() || steps.size() > 16) throw InputError(fmt::format("{}: expected path=value", what));
  return steps;
}

}  // namespace

void apply_override(OrderedJson& config, const std::string& assignment) {
  std::string what = "--set " + assignment.substr(0, 200);
  size_t equals = assignment.find('=');
  if (equals == std::string::npos) throw InputError(what + ": expected path=value");
  std::string text = assignment.substr(equals + 1);
  OrderedJson value;
  if (OrderedJson::accept(text)) {
    value = parse_bounded_json(text, what);
  } else {
    value = text;
  }
  OrderedJson* at = &config;
  for (const Step& step : steps_of(std::string_view(assignment).substr(0, equals), what)) {
    if (step.name.empty()) {
      if (!at->is_array()) throw InputError(fmt::format("{}: [{}] is not in a list", what, step.index));
      if (step.index >= at->size()) {
        throw InputError(
            fmt::format("{}: found index {}, expected less than {}", what, step.index, at->size()));
      }
      at = &(*at)[step.index];
    } else {
      if (at->is_null()) *at = OrderedJson::object();
      if (!at->is_object()) throw InputError(fmt::format("{}: '{}' is not in an object", what, step.name));
      at = &(*at)[step.name];
    }
  }
  *at = std::move(value);
}

}  // namespace kvcost
