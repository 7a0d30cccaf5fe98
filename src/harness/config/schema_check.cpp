#include "src/harness/config/schema_check.h"

#include <fmt/format.h>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "src/base/error.h"
#include "src/harness/config/json_text.h"

namespace kvcost {
namespace {

using nlohmann::json;

const json& follow_reference(const json& schema, const json& root) {
  const json* at = &schema;
  while (at->contains("$ref")) at = &root.at(json::json_pointer(at->at("$ref").get<std::string>().substr(1)));
  return *at;
}

std::string listed(const json& values) {
  std::string all;
  for (const json& value : values) {
    all += (all.empty() ? "" : ", ") + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return all;
}

std::string limits(const json& schema) {
  bool low = schema.contains("minimum"), high = schema.contains("maximum");
  if (low && high) return " from " + schema["minimum"].dump() + " to " + schema["maximum"].dump();
  if (low) return " of at least " + schema["minimum"].dump();
  return high ? " of at most " + schema["maximum"].dump() : "";
}

std::string expectation_of_type(const std::string& type, const json& schema) {
  if (type == "integer") return "an integer" + limits(schema);
  if (type == "number") return "a number" + limits(schema);
  if (type == "boolean") return "true or false";
  if (type == "object") return "an object";
  if (type == "string") {
    if (schema.contains("maxLength")) {
      return fmt::format("text of {} to {} characters", schema.value("minLength", 0),
                         schema["maxLength"].dump());
    }
    return "text";
  }
  if (schema.contains("minItems") && schema.contains("maxItems")) {
    return fmt::format("a list of {} to {} values", schema["minItems"].dump(), schema["maxItems"].dump());
  }
  if (schema.contains("maxItems"))
    return fmt::format("a list of at most {} values", schema["maxItems"].dump());
  return "a list";
}

std::string expectation(const json& schema) {
  if (schema.contains("enum")) return "one of " + listed(schema["enum"]);
  json types = schema.value("type", json("a value that the schema allows"));
  if (types.is_string()) return expectation_of_type(types.get<std::string>(), schema);
  std::string all;
  for (const json& type : types) {
    all += (all.empty() ? "" : " or ") + expectation_of_type(type.get<std::string>(), schema);
  }
  return all;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// Says in one line what is wrong with `value`, known to violate `schema` at this very place.
std::string explain(const json& value, const json& schema, const json& root, const std::string& path) {
  std::string prefix = path.empty() ? "" : path + ".";
  if (value.is_object() && schema.contains("properties")) {
    const json& known = schema["properties"];
    if (schema.value("additionalProperties", json(true)) == json(false)) {
      for (const auto& [key, ignored] : value.items()) {
        if (known.contains(key)) continue;
        return fmt::format("{}{}: unknown setting{}", prefix, key, hint(key, keys_of(known)));
      }
    }
    for (const json& key : schema.value("required", json::array())) {
      auto name = key.get<std::string>();
      if (value.contains(name)) continue;
      return fmt::format("{}{}: found nothing, expected {}", prefix, name,
                         expectation(follow_reference(known.at(name), root)));
    }
  }
  std::string close;
  if (value.is_string() && schema.contains("enum")) {
    std::string name = nearest(value.get<std::string>(), schema["enum"].get<std::vector<std::string>>());
    if (!name.empty()) close = ", did you mean '" + name + "'?";
  }
  return fmt::format("{}: found {}, expected {}{}", path.empty() ? "the file" : path, shown(value),
                     expectation(schema), close);
}

/// "[rows]" -> "rows"; valijson writes each step of its context so.
std::string step_name(const std::string& context) {
  return context.size() >= 2 && context.front() == '[' ? context.substr(1, context.size() - 2) : context;
}

}  // namespace

void check_schema(const json& value, const json& schema, const std::string& what) {
  valijson::Schema compiled;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), compiled);
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(compiled, valijson::adapters::NlohmannJsonAdapter(value), &results)) return;

  // An error inside is reported again by everything around it, with a shorter context.
  std::vector<std::string> deepest;
  for (const auto& error : results) {
    if (error.context.size() > deepest.size()) deepest = error.context;
  }
  const json* at = &value;
  const json* rule = &follow_reference(schema, schema);
  std::vector<std::string> path;
  for (size_t i = 1; i < deepest.size(); ++i) {
    std::string name = step_name(deepest[i]);
    const char* inside = at->is_array() ? "items" : "properties";
    if (at->is_array()) {
      at = &at->at(std::stoul(name));
    } else if (at->is_object() && at->contains(name)) {
      at = &(*at)[name];
    } else {
      break;
    }
    path.push_back(name);
    const json& below = rule->at(inside);
    rule = &follow_reference(std::string_view(inside) == "items" ? below : below.at(name), schema);
  }
  throw InputError(what + ": " + explain(*at, *rule, schema, joined_path(path)));
}

}  // namespace kvcost
