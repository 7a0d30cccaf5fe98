// cache/: what a smaller cache is: lifetimes, policies that evict, codecs that round, their registry, and
// packed storage. Knows the shape of keys and values, not the model, the experiment or each other.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace kvcost {

/// Reads a policy's or codec's settings from the row's JSON object, and refuses the ones nobody read.
///   Knobs knobs(json, "rows[3].evict");
///   capacity = knobs.integer("capacity", 1, INT32_MAX);            // required
///   sinks = knobs.integer("sinks", 0, capacity - 1, 4);            // optional, default 4
///   knobs.done();
/// InputError: "rows[3].evict.sinks: found 700, expected an integer from 0 to 511".
class Knobs {
 public:
  Knobs(const nlohmann::json& object, std::string path);
  int64_t integer(const std::string& name, int64_t least, int64_t most);
  int64_t integer(const std::string& name, int64_t least, int64_t most, int64_t fallback);
  double number(const std::string& name, double least, double most, double fallback);
  bool boolean(const std::string& name, bool fallback);
  std::string choice(const std::string& name, const std::vector<std::string>& valid);
  std::string choice(const std::string& name, const std::vector<std::string>& valid,
                     const std::string& fallback);
  bool has(const std::string& name) const;
  /// Refuses settings that were not read, with the nearest one that was asked for.
  void done() const;
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;
  const std::string& path() const { return path_; }

 private:
  const nlohmann::json* find(const std::string& name);
  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string> asked_;
};

}  // namespace kvcost
