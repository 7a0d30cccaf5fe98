#include "src/harness/config/grid.h"

#include <fmt/format.h>

#include "src/base/error.h"

namespace kvcost {
namespace {

using Pointer = nlohmann::json::json_pointer;

struct Axis {
  Pointer place;
  std::string path;
  std::vector<nlohmann::json> values;
};

void add_axis(std::vector<Axis>& axes, const OrderedJson& value, const Pointer& place,
              const std::string& path) {
  if (!value.is_array()) return;
  if (value.empty()) throw InputError(fmt::format("{}: found an empty list, expected values", path));
  axes.push_back({place, path, {}});
  for (const auto& entry : value) {
    if (entry.is_structured()) {
      throw InputError(
          fmt::format("{}: found {} in a list, expected plain values", path, shown(nlohmann::json(entry))));
    }
    axes.back().values.emplace_back(entry);
  }
}

std::vector<Axis> axes_of(const OrderedJson& row, const std::string& path) {
  std::vector<Axis> axes;
  for (const auto& [name, value] : row.items()) {
    if (name == "exact_last") add_axis(axes, value, Pointer() / name, path + "." + name);
    if (name != "evict" && name != "keys" && name != "values") continue;
    for (const auto& [knob, setting] : value.items()) {
      add_axis(axes, setting, Pointer() / name / knob, fmt::format("{}.{}.{}", path, name, knob));
    }
  }
  return axes;
}

/// Everything a name may refer to: "evict.capacity" -> "512".
std::vector<std::pair<std::string, std::string>> references(const nlohmann::json& row) {
  std::vector<std::pair<std::string, std::string>> all;
  auto text = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const char* part : {"evict", "keys", "values"}) {
    if (!row.contains(part)) continue;
    for (const auto& [knob, value] : row[part].items()) {
      all.emplace_back(std::string(part) + "." + knob, text(value));
    }
  }
  if (row.contains("exact_last")) all.emplace_back("exact_last", text(row["exact_last"]));
  return all;
}

std::string filled_name(const nlohmann::json& row, const std::string& path) {
  const auto& pattern = row["name"].get_ref<const std::string&>();
  auto known = references(row);
  std::string name;
  for (size_t at = 0; at < pattern.size();) {
    size_t close = pattern[at] == '{' ? pattern.find('}', at) : std::string::npos;
    if (close == std::string::npos) {
      name += pattern[at++];
      continue;
    }
    std::string reference = pattern.substr(at + 1, close - at - 1);
    const std::string* found = nullptr;
    std::vector<std::string> valid;
    for (const auto& [key, value] : known) {
      valid.push_back(key);
      if (key == reference) found = &value;
    }
    if (found == nullptr) {
      throw InputError(fmt::format("{}.name: '{{{}}}' names nothing in the row{}", path, reference,
                                   valid.empty() ? "" : hint(reference, valid)));
    }
    name += *found;
    at = close + 1;
  }
  return name;
}

}  // namespace

std::vector<nlohmann::json> expand_row(const OrderedJson& row, const std::string& path, size_t most) {
  std::vector<Axis> axes = axes_of(row, path);
  size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.values.size();
    if (count > most) {
      throw InputError(fmt::format("{}: the lists make more than {} rows", axis.path, most));
    }
  }
  std::vector<nlohmann::json> rows;
  for (size_t i = 0; i < count; ++i) {
    nlohmann::json made = row;
    size_t rest = i;
    for (size_t a = axes.size(); a-- > 0;) {
      made[axes[a].place] = axes[a].values[rest % axes[a].values.size()];
      rest /= axes[a].values.size();
    }
    made["name"] = filled_name(made, path);
    rows.push_back(std::move(made));
  }
  return rows;
}

}  // namespace kvcost
