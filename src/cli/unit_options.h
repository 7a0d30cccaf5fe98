#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "src/cli/live_table.h"
#include "src/harness/runner.h"

namespace kvcost {

/// Where a command that measures units reads and writes them, and which share of them it takes.
struct UnitOptions {
  std::string out = "results", store = "runs", shard = "1/1";
};

/// Adds --out, --store and --shard. `files`: what --out is a folder for; `items`: what is shared out.
inline void add_unit_options(CLI::App& command, UnitOptions& options, const std::string& files,
                             const std::string& items) {
  command.add_option("--out", options.out, "Folder for " + files)->type_name("DIR")->capture_default_str();
  command.add_option("--store", options.store, "Folder of finished units, shared by runs and machines")
      ->type_name("DIR")
      ->capture_default_str();
  command.add_option("--shard", options.shard, "Measure only the K-th of N shares of the " + items)
      ->type_name("K/N")
      ->capture_default_str();
}

/// Texts are looked for beside the config and one folder up. InputError if the shard is no K/N.
inline RunOptions run_options_of(const UnitOptions& options, const std::string& config) {
  RunOptions run;
  run.out = options.out;
  run.store = options.store;
  run.shard = Shard::parse(options.shard);
  std::filesystem::path folder = std::filesystem::absolute(config).parent_path();
  run.text_folders = {folder, folder.parent_path()};
  return run;
}

/// For SIGINT. Finished units are whole files, so there is nothing to save: only calls that are safe in a
/// handler.
extern "C" inline void interrupted(int) {
  constexpr char kMessage[] = "\nkvcost: interrupted; the same command goes on from here\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(130);
}

/// measure(progress), shown as it goes on and safe to interrupt. An empty result means that other shards have
/// work left, and that is said.
template <class Measure>
auto measure_shown(const UnitOptions& options, const std::string& name, Measure&& measure) {
  std::signal(SIGINT, interrupted);
  auto progress = make_progress(isatty(STDERR_FILENO) != 0);
  auto result = measure(*progress);
  progress.reset();
  if (!result) {
    fmt::print("shard {} is done; the shard that finishes last writes {}/{}.json\n", options.shard,
               options.out, name);
  }
  return result;
}

}  // namespace kvcost
