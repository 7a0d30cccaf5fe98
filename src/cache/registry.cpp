#include "src/cache/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"

namespace kvcost {
namespace {

// Functions, not globals: registrars run before main in no fixed order.
std::vector<Entry<Policy>>& policy_list() {
  static std::vector<Entry<Policy>> list;
  return list;
}

std::vector<Entry<Codec>>& codec_list() {
  static std::vector<Entry<Codec>> list;
  return list;
}

template <class Interface>
void insert(std::vector<Entry<Interface>>& list, Entry<Interface> entry) {
  auto place = std::lower_bound(list.begin(), list.end(), entry,
                                [](const auto& a, const auto& b) { return a.name < b.name; });
  if (place != list.end() && place->name == entry.name) throw Failure(entry.name + ": registered twice");
  list.insert(place, std::move(entry));
}

/// `common` reads the knobs that every class has.
template <class Interface>
std::unique_ptr<Interface> make(const std::vector<Entry<Interface>>& list, const char* key,
                                const nlohmann::json& object, const std::string& path, auto&& common) {
  Knobs knobs(object, path);
  std::vector<std::string> names;
  for (const auto& entry : list) names.push_back(entry.name);
  std::string name = knobs.choice(key, names);
  for (const auto& entry : list) {
    if (entry.name == name) {
      common(knobs);
      auto made = entry.make(knobs);
      knobs.done();
      return made;
    }
  }
  throw Failure(name + ": registered and then lost");
}

}  // namespace

const std::vector<Entry<Policy>>& policies() { return policy_list(); }
const std::vector<Entry<Codec>>& codecs() { return codec_list(); }
void register_policy(Entry<Policy> entry) { insert(policy_list(), std::move(entry)); }
void register_codec(Entry<Codec> entry) { insert(codec_list(), std::move(entry)); }

std::unique_ptr<Policy> make_policy(const nlohmann::json& object, const std::string& path) {
  return make(policy_list(), "policy", object, path, [](Knobs& knobs) {
    knobs.choice("positions", {"original"}, "original");  // the only ones there are, for any policy
  });
}

std::unique_ptr<Codec> make_codec(const nlohmann::json& object, const std::string& path) {
  return make(codec_list(), "codec", object, path, [](Knobs&) {});
}

}  // namespace kvcost
