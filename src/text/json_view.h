#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvcost {

/// A value inside a JSON file and the way to it, so that every complaint names both. Does not own the value.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  /// InputError if this is no object or has no such member.
  JsonView at(const char* key) const;
  /// Nothing if the member is absent or null; InputError if this is no object.
  std::optional<JsonView> find(const char* key) const;
  JsonView item(size_t index) const;
  /// The length of an array; InputError if this is none.
  size_t array_size() const;

  const std::string& text() const;
  bool boolean() const;
  /// An integer in [0, 2^31 - 1).
  int32_t id() const;
  bool flag(const char* key, bool absent) const;
  std::string text(const char* key, std::string_view absent) const;

  const nlohmann::json& raw() const { return *value_; }
  std::string where() const { return path_.empty() ? file_ : file_ + ": " + path_; }
  [[noreturn]] void expected(std::string_view what) const;

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

/// The document in `text`; InputError naming `file` and the byte where it stops being JSON.
nlohmann::json parse_json(std::string_view text, const std::string& file);

}  // namespace kvcost
