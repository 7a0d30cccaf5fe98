#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "src/harness/config/experiment.h"

namespace kvcost {

/// Adds --set, --rows and --threads, which change a config that is read. `example`: of a change.
inline void add_change_options(CLI::App& command, ExperimentChanges& changes, const std::string& example) {
  command.add_option("--set", changes.set, "Change a config key: " + example)
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
  command.add_option("--rows", changes.rows, "Only rows whose name matches (the full cache always runs)")
      ->type_name("REGEX");
  command.add_option("--threads", changes.threads, "Threads; 0 = one for each core")->type_name("N");
}

/// Those and --windows.
inline void add_experiment_options(CLI::App& command, ExperimentChanges& changes) {
  add_change_options(command, changes, "rows[3].evict.capacity=64");
  command.add_option("--windows", changes.windows, "Measure this many windows")->type_name("N");
}

}  // namespace kvcost
