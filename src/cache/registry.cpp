#include "src/cache/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/cache/budgets.h"

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

bool read_positions(Knobs& knobs) {
  return knobs.choice("positions", {"original", "cache"}, "original") == "cache";
}

nlohmann::json with_capacity(nlohmann::json object, int64_t tokens) {
  for (const KnobHelp& knob : Budgets::help()) object.erase(knob.name);
  object["capacity"] = tokens;
  return object;
}

std::string of_layer(const std::string& path, int64_t tokens) {
  return fmt::format("{} (a layer of {} tokens)", path, tokens);
}

}  // namespace

const std::vector<Entry<Policy>>& policies() { return policy_list(); }
const std::vector<Entry<Codec>>& codecs() { return codec_list(); }
void register_policy(Entry<Policy> entry) {
  std::vector<KnobHelp>& knobs = entry.description.knobs;
  auto named = [](const KnobHelp& knob) { return knob.name == "capacity"; };
  if (std::any_of(knobs.begin(), knobs.end(), named)) {
    for (const KnobHelp& knob : Budgets::help()) knobs.push_back(knob);
  }
  knobs.push_back({"positions", "-", "original, or cache: by rank among the tokens kept (original)"});
  insert(policy_list(), std::move(entry));
}
void register_codec(Entry<Codec> entry) { insert(codec_list(), std::move(entry)); }

std::unique_ptr<Policy> make_policy(const nlohmann::json& object, const std::string& path) {
  int64_t least = 0, most = 0;
  auto policy = make(policy_list(), "policy", object, path, [&](Knobs& knobs) {
    read_positions(knobs);
    if (!knobs.has("capacity")) return;
    const Budgets budgets(knobs);
    if (!budgets.even()) least = budgets.least(), most = budgets.most();
  });
  // What is wrong with a layer's share should show before there are layers.
  for (int64_t tokens : {least, most}) {
    if (tokens > 0) make_policy(with_capacity(object, tokens), of_layer(path, tokens));
  }
  return policy;
}

std::vector<std::shared_ptr<const Policy>> make_layer_policies(const nlohmann::json& object,
                                                               const std::string& path, int layers) {
  Knobs knobs(object, path);
  if (!knobs.has("capacity") || Budgets(knobs).even()) {
    return std::vector<std::shared_ptr<const Policy>>(static_cast<size_t>(layers), make_policy(object, path));
  }
  std::vector<std::shared_ptr<const Policy>> all;
  for (int64_t tokens : Budgets(knobs).of(layers)) {
    all.push_back(make_policy(with_capacity(object, tokens), of_layer(path, tokens)));
  }
  return all;
}

bool is_renumbered(const nlohmann::json& object, const std::string& path) {
  Knobs knobs(object, path);
  return read_positions(knobs);
}

std::vector<KnobHelp> content_knobs(std::vector<KnobHelp> own, const char* recent) {
  std::vector<KnobHelp> all = {{"capacity", "tokens", "most tokens a query sees, itself included"},
                               {"recent", "tokens", fmt::format("newest tokens that stay ({})", recent)},
                               {"sinks", "tokens", "first tokens that never leave (0)"}};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::unique_ptr<Codec> make_codec(const nlohmann::json& object, const std::string& path) {
  return make(codec_list(), "codec", object, path, [](Knobs&) {});
}

}  // namespace kvcost
