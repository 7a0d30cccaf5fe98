#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "src/cli/commands.h"

namespace kvcost {
namespace {

struct ListOptions {
  std::string name;
};

std::string knob_names(const Description& description) {
  std::string names;
  for (const KnobHelp& knob : description.knobs) names += (names.empty() ? "" : ", ") + knob.name;
  return names.empty() ? "no knobs" : names;
}

template <class Interface>
void print_lines(const std::vector<Entry<Interface>>& entries, size_t width) {
  for (const auto& entry : entries) {
    fmt::print("  {:{}}  {}; {}; {}\n", entry.name, width, entry.description.summary,
               knob_names(entry.description), entry.description.paper);
  }
}

template <class Interface>
bool print_one(const std::vector<Entry<Interface>>& entries, const std::string& name, const char* kind) {
  for (const auto& entry : entries) {
    if (entry.name != name) continue;
    const Description& description = entry.description;
    fmt::print("{} ({}): {}\npaper: {}\n", name, kind, description.summary, description.paper);
    size_t width = 0;
    for (const KnobHelp& knob : description.knobs) width = std::max(width, knob.name.size());
    for (const KnobHelp& knob : description.knobs) {
      fmt::print("  {:{}}  {}{}\n", knob.name, width, knob.meaning,
                 knob.unit.empty() || knob.unit == "-" ? "" : " (" + knob.unit + ")");
    }
    for (const std::string& example : description.examples) fmt::print("example: {}\n", example);
    return true;
  }
  return false;
}

void list(const ListOptions& options) {
  size_t width = 0;
  std::vector<std::string> names;
  for (const auto& entry : policies()) names.push_back(entry.name);
  for (const auto& entry : codecs()) names.push_back(entry.name);
  for (const std::string& name : names) width = std::max(width, name.size());
  if (options.name.empty()) {
    fmt::print("policies, \"evict\": {{\"policy\": NAME, ...}}\n");
    print_lines(policies(), width);
    fmt::print("codecs, \"keys\" or \"values\": {{\"codec\": NAME, ...}}\n");
    print_lines(codecs(), width);
    return;
  }
  bool found = print_one(policies(), options.name, "policy");
  found = print_one(codecs(), options.name, "codec") || found;
  if (!found)
    throw InputError(fmt::format("'{}': no such policy or codec{}", options.name, hint(options.name, names)));
}

}  // namespace

void register_list(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand("list", "List policies and codecs, their knobs and papers");
  command->add_option("NAME", options->name, "Explain this one's knobs");
  command->callback([options] { list(*options); });
}

}  // namespace kvcost
