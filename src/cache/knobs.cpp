#include "src/cache/knobs.h"

#include <fmt/format.h>

#include "src/base/error.h"

namespace kvcost {

Knobs::Knobs(const nlohmann::json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    throw InputError(fmt::format("{}: found {}, expected an object", path_, object.dump()));
}

const nlohmann::json* Knobs::find(const std::string& name) {
  asked_.insert(name);
  auto it = object_.find(name);
  return it == object_.end() ? nullptr : &*it;
}

bool Knobs::has(const std::string& name) const { return object_.contains(name); }

void Knobs::refuse(const std::string& name, const std::string& expected) const {
  auto it = object_.find(name);
  std::string found = it == object_.end() ? "nothing" : it->dump();
  throw InputError(fmt::format("{}.{}: found {}, expected {}", path_, name, found, expected));
}

int64_t Knobs::integer(const std::string& name, int64_t least, int64_t most) {
  const nlohmann::json* value = find(name);
  bool good = value != nullptr && value->is_number_integer();
  // A u64 above INT64_MAX would wrap when read as signed.
  if (good && value->is_number_unsigned()) good = value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  int64_t result = good ? value->get<int64_t>() : 0;
  if (!good || result < least || result > most) {
    refuse(name, most >= INT32_MAX ? fmt::format("an integer of at least {}", least)
                                   : fmt::format("an integer from {} to {}", least, most));
  }
  return result;
}

int64_t Knobs::integer(const std::string& name, int64_t least, int64_t most, int64_t fallback) {
  return find(name) == nullptr ? fallback : integer(name, least, most);
}

double Knobs::number(const std::string& name, double least, double most, double fallback) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
    refuse(name, fmt::format("a number from {} to {}", least, most));
  }
  return value->get<double>();
}

bool Knobs::boolean(const std::string& name, bool fallback) {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse(name, "true or false");
  return value->get<bool>();
}

std::string Knobs::choice(const std::string& name, const std::vector<std::string>& valid) {
  const nlohmann::json* value = find(name);
  if (value == nullptr || !value->is_string()) {
    std::string all;
    for (const std::string& entry : valid) all += (all.empty() ? "" : ", ") + entry;
    refuse(name, "one of " + all);
  }
  std::string found = value->get<std::string>();
  for (const std::string& entry : valid) {
    if (entry == found) return found;
  }
  throw InputError(fmt::format("{}.{}: unknown '{}'{}", path_, name, found, hint(found, valid)));
}

std::string Knobs::choice(const std::string& name, const std::vector<std::string>& valid,
                          const std::string& fallback) {
  return find(name) == nullptr ? fallback : choice(name, valid);
}

void Knobs::done() const {
  std::vector<std::string> valid(asked_.begin(), asked_.end());
  for (const auto& [name, value] : object_.items()) {
    if (!asked_.contains(name)) {
      throw InputError(fmt::format("{}.{}: unknown setting{}", path_, name, hint(name, valid)));
    }
  }
}

}  // namespace kvcost
