// cli/: one file for each subcommand, with one struct of options and one function that registers it. Only
// this room prints; whatever is below it throws.
#pragma once
#include <CLI/CLI.hpp>

namespace kvcost {

/// Each adds one subcommand whose callback does the work: InputError or Failure when it cannot.
void register_run(CLI::App& app);
void register_recall(CLI::App& app);
void register_kept(CLI::App& app);
void register_stream(CLI::App& app);
void register_validate(CLI::App& app);
void register_list(CLI::App& app);
void register_inspect(CLI::App& app);
void register_table(CLI::App& app);
void register_plot(CLI::App& app);
void register_budget(CLI::App& app);
void register_stats(CLI::App& app);

}  // namespace kvcost
