// kvcost table: results as people read them, or as programs do.
#include "src/report/table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/cli/commands.h"
#include "src/cli/table_format.h"
#include "src/report/kept_table.h"
#include "src/report/published.h"
#include "src/report/stream_table.h"

namespace kvcost {
namespace {

struct TableCommand {
  std::vector<std::string> results;
  TableOptions options;
  std::string format = "text", published;
  bool layers = false;
};

/// Positions cannot do without; the gap closed has no interval then.
std::optional<Losses> losses_beside(const std::filesystem::path& result_path, const ResultFile& result,
                                    const TableOptions& options) {
  std::filesystem::path path = losses_path(result_path);
  if (!wants_losses(result, options)) return std::nullopt;
  if (options.position_blocks == 0 && !std::filesystem::exists(path)) return std::nullopt;
  return read_losses(path, result);
}

/// Streams and kept sets have tables of their own, which the other results' options do not change.
void refuse_options(const TableCommand& command, const char* what) {
  const TableOptions& options = command.options;
  const char* option = options.measures               ? "--measures"
                       : options.beside               ? "--beside"
                       : options.position_blocks != 0 ? "--by-position"
                       : !command.published.empty()   ? "--published"
                                                      : nullptr;
  if (option == nullptr) return;
  throw InputError(
      fmt::format("{}: found with {}, {}, whose table has none", option, command.results[0], what));
}

void print_streams(const TableCommand& command) {
  refuse_options(command, "a stream's result");
  std::vector<StreamResult> results;
  for (const std::string& path : command.results) results.push_back(read_stream_result(path));
  fmt::print("{}", stream_table(results, command.options.format));
}

void print_kept(const TableCommand& command) {
  refuse_options(command, "a result of kvcost kept");
  std::vector<KeptResult> results;
  for (const std::string& path : command.results) results.push_back(read_kept_result(path));
  fmt::print("{}", kept_tables(results, {command.options.format, command.layers}));
}

void run(TableCommand& command) {
  command.options.format = table_format_of(command.format);
  const std::string kind = result_kind(command.results[0]);
  if (kind == "kept") return print_kept(command);
  if (command.layers) throw InputError("--layers: found other results, expected some of kvcost kept");
  if (kind == "stream") return print_streams(command);
  if (command.options.position_blocks < 0) {
    throw InputError(
        fmt::format("--by-position: found {}, expected at least 1", command.options.position_blocks));
  }
  if (command.options.position_blocks > 0 && (command.options.beside || !command.published.empty())) {
    throw InputError("--by-position: cannot be given with --beside or --published");
  }
  std::vector<ResultFile> results;
  std::vector<std::optional<Losses>> losses;
  for (const std::string& path : command.results) {
    results.push_back(read_result(path));
    losses.push_back(losses_beside(path, results.back(), command.options));
  }
  if (command.published.empty()) {
    fmt::print("{}", table(results, command.options, losses));
    return;
  }
  if (results.size() != 1) {
    throw InputError(fmt::format("--published: found {} results, expected one to compare", results.size()));
  }
  fmt::print("{}", compare(read_published(command.published), results[0], command.options.format));
}

}  // namespace

void register_table(CLI::App& app) {
  auto command = std::make_shared<TableCommand>();
  CLI::App* sub = app.add_subcommand("table", "Print results as a table");
  sub->add_option("results", command->results, "results/NAME.json, one or more")->required();
  sub->add_option("--format", command->format, "text, markdown, csv or json")->type_name("FORMAT");
  sub->add_flag("--measures", command->options.measures,
                "KL, top-1 agreement, probability change, tokens kept and time too");
  sub->add_flag("--beside", command->options.beside, "several results side by side, losses only");
  sub->add_option("--by-position", command->options.position_blocks,
                  "the loss in N blocks of positions of the scored part too")
      ->type_name("N");
  sub->add_flag("--layers", command->layers, "of kvcost kept: the numbers of each layer too");
  sub->add_option("--published", command->published,
                  "numbers to compare one result with, e.g. data/published/eviction_and_quantization.json")
      ->type_name("FILE");
  sub->callback([command] { run(*command); });
}

}  // namespace kvcost
