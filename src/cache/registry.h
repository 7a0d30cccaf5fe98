#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/cache/codec.h"
#include "src/cache/policy.h"

namespace kvcost {

/// One knob, for `kvcost list`.
struct KnobHelp {
  std::string name, unit, meaning;
};

/// What `kvcost list` prints of a policy or codec.
struct Description {
  std::string summary;  ///< one line
  std::string paper;    ///< "Xiao et al. 2024, arXiv 2309.17453", or "-"
  std::vector<KnobHelp> knobs;
  /// Knob values for the contract test, JSON objects: {"capacity": 7}; codecs give a few forms each.
  std::vector<std::string> examples;
};

template <class Interface>
struct Entry {
  std::string name;
  Description description;
  std::function<std::unique_ptr<Interface>(Knobs&)> make;
};

const std::vector<Entry<Policy>>& policies();  ///< by name
const std::vector<Entry<Codec>>& codecs();

/// From {"policy": NAME, ...}: reads the name, hands the rest to its class. InputError with the nearest name.
/// Any policy with a capacity also takes Budgets' knobs; this one has the mean over layers. Any policy takes
/// "positions" (is_renumbered), which it knows nothing of.
std::unique_ptr<Policy> make_policy(const nlohmann::json& object, const std::string& path);
/// The same for each of a model's layers, with the capacity that Budgets gives it. Layers that have the same
/// share one.
std::vector<std::shared_ptr<const Policy>> make_layer_policies(const nlohmann::json& object,
                                                               const std::string& path, int layers);
/// True if `object` has "positions": "cache": a token's position is then its rank among those kept.
bool is_renumbered(const nlohmann::json& object, const std::string& path);
/// From {"codec": NAME, ...}.
std::unique_ptr<Codec> make_codec(const nlohmann::json& object, const std::string& path);

/// Knobs that a ContentPolicy takes, for its description, and then its own.
std::vector<KnobHelp> content_knobs(std::vector<KnobHelp> own = {},
                                    const char* recent = "0: only the newest one");

/// Adds "positions" to a policy's description, and Budgets' knobs to that of one with a capacity.
void register_policy(Entry<Policy> entry);
void register_codec(Entry<Codec> entry);

/// Class needs `static Description describe()` and `explicit Class(Knobs&)`.
#define KVCOST_POLICY(name, Class)                                                                         \
  static const bool registered_##Class =                                                                   \
      (::kvcost::register_policy({name, Class::describe(),                                                 \
                                  [](::kvcost::Knobs& knobs) { return std::make_unique<Class>(knobs); }}), \
       true)
#define KVCOST_CODEC(name, Class)                                                                         \
  static const bool registered_##Class =                                                                  \
      (::kvcost::register_codec({name, Class::describe(),                                                 \
                                 [](::kvcost::Knobs& knobs) { return std::make_unique<Class>(knobs); }}), \
       true)

}  // namespace kvcost
