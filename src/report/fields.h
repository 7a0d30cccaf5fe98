#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace kvcost {

/// Typed reading of a JSON object; every refusal is an InputError that names the path, what was found and
/// what was expected. Keys that nobody reads are let be: the file may say more than a table needs.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string path);
  std::string text(const std::string& key) const;
  double number(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t least, int64_t most) const;
  /// The elements of a list that must be there.
  const nlohmann::json& list(const std::string& key) const;
  bool has(const std::string& key) const { return object_.contains(key); }
  Fields object(const std::string& key) const;
  std::string path_of(const std::string& key) const { return path_ + "." + key; }

 private:
  const nlohmann::json& need(const std::string& key, const char* expected) const;
  const nlohmann::json& object_;
  std::string path_;
};

}  // namespace kvcost
