#include "src/text/json_view.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "src/base/error.h"

namespace kvcost {
namespace {

/// A short rendering of a value of any size, on one line.
std::string glimpse(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

}  // namespace

void JsonView::expected(std::string_view what) const {
  throw InputError(fmt::format("{}: found {}, expected {}", where(), glimpse(*value_), what));
}

JsonView JsonView::at(const char* key) const {
  if (auto found = find(key)) return *found;
  throw InputError(fmt::format("{}: '{}' is missing", where(), key));
}

std::optional<JsonView> JsonView::find(const char* key) const {
  if (!value_->is_object()) expected("an object");
  auto member = value_->find(key);
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return JsonView(*member, file_, path_.empty() ? key : path_ + "." + key);
}

JsonView JsonView::item(size_t index) const {
  return JsonView((*value_)[index], file_, fmt::format("{}[{}]", path_, index));
}

size_t JsonView::array_size() const {
  if (!value_->is_array()) expected("an array");
  return value_->size();
}

const std::string& JsonView::text() const {
  if (!value_->is_string()) expected("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

int32_t JsonView::id() const {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  if (!value_->is_number_integer() || value_->get<int64_t>() < 0 || value_->get<int64_t>() >= limit)
    expected("a token id (an integer from 0 up)");
  return value_->get<int32_t>();
}

bool JsonView::flag(const char* key, bool absent) const {
  auto found = find(key);
  return found ? found->boolean() : absent;
}

std::string JsonView::text(const char* key, std::string_view absent) const {
  auto found = find(key);
  return found ? found->text() : std::string(absent);
}

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw InputError(fmt::format("{}: not JSON from byte {} on", file, error.byte));
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: a number that no double can hold", file));
  }
}

}  // namespace kvcost
