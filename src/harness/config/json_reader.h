#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/base/error.h"
#include "src/harness/config/json_text.h"

namespace kvcost {

/// Takes fields out of an object by name; every refusal names the file and the path.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) {
      throw InputError(fmt::format("{}: found {}, expected an object", path_, shown(object)));
    }
  }

  std::string text(const char* name) const {
    const nlohmann::json& value = at(name);
    if (!value.is_string()) refuse(name, "text");
    const auto& found = value.get_ref<const std::string&>();
    for (unsigned char c : found) {
      if (c < ' ' || c == 127) refuse(name, "text without control characters");
    }
    return found;
  }

  int64_t integer(const char* name, int64_t least) const {
    const nlohmann::json& value = at(name);
    if (!value.is_number_integer() || value.get<int64_t>() < least) {
      refuse(name, fmt::format("an integer of at least {}", least));
    }
    return value.get<int64_t>();
  }

  /// null stands for a number that does not exist, such as the ± of a single token.
  double number(const char* name) const {
    const nlohmann::json& value = at(name);
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) refuse(name, "a number or null");
    return value.get<double>();
  }

  std::optional<double> optional_number(const char* name) const {
    if (!object_.contains(name) || object_[name].is_null()) return std::nullopt;
    return number(name);
  }

  bool boolean(const char* name) const {
    if (!at(name).is_boolean()) refuse(name, "true or false");
    return at(name).get<bool>();
  }

  const nlohmann::json& list(const char* name, size_t most) const {
    if (!at(name).is_array() || at(name).size() > most)
      refuse(name, fmt::format("a list of at most {}", most));
    return at(name);
  }

  const nlohmann::json& at(const char* name) const {
    auto it = object_.find(name);
    if (it == object_.end()) throw InputError(fmt::format("{}: '{}' is missing", path_, name));
    return *it;
  }

  [[noreturn]] void refuse(const char* name, const std::string& expected) const {
    throw InputError(fmt::format("{}.{}: found {}, expected {}", path_, name, shown(at(name)), expected));
  }

 private:
  const nlohmann::json& object_;
  std::string path_;
};

}  // namespace kvcost
