#include "src/report/fields.h"

#include <fmt/format.h>

#include "src/base/error.h"

namespace kvcost {
namespace {

[[noreturn]] void refuse(const std::string& path, const nlohmann::json* found, const std::string& expected) {
  std::string shown = "nothing";
  if (found != nullptr) {
    shown = found->is_structured() ? (found->is_array() ? "a list" : "an object")
                                   : found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  }
  throw InputError(fmt::format("{}: found {}, expected {}", path, shown, expected));
}

}  // namespace

Fields::Fields(const nlohmann::json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse(path_, &object, "an object");
}

const nlohmann::json& Fields::need(const std::string& key, const char* expected) const {
  auto it = object_.find(key);
  if (it == object_.end()) refuse(path_of(key), nullptr, expected);
  return *it;
}

std::string Fields::text(const std::string& key) const {
  const nlohmann::json& value = need(key, "a string");
  if (!value.is_string()) refuse(path_of(key), &value, "a string");
  return value.get<std::string>();
}

double Fields::number(const std::string& key) const {
  const nlohmann::json& value = need(key, "a number");
  if (!value.is_number()) refuse(path_of(key), &value, "a number");
  return value.get<double>();
}

int64_t Fields::integer(const std::string& key, int64_t least, int64_t most) const {
  const nlohmann::json& value = need(key, "an integer");
  bool good = value.is_number_integer();
  // A u64 above INT64_MAX would wrap when read as signed.
  if (good && value.is_number_unsigned()) good = value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  int64_t number = good ? value.get<int64_t>() : 0;
  if (!good || number < least || number > most) {
    refuse(path_of(key), &value, fmt::format("an integer from {} to {}", least, most));
  }
  return number;
}

const nlohmann::json& Fields::list(const std::string& key) const {
  const nlohmann::json& value = need(key, "a list");
  if (!value.is_array()) refuse(path_of(key), &value, "a list");
  return value;
}

Fields Fields::object(const std::string& key) const { return {need(key, "an object"), path_of(key)}; }

}  // namespace kvcost
