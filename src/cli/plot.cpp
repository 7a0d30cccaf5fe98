// kvcost plot: results as pictures, drawn by gnuplot.
#include "src/report/plot.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/printable.h"
#include "src/cli/commands.h"

namespace kvcost {
namespace {

/// More lines than this in one plot are hard to follow.
constexpr size_t kManyLines = 8;

struct PlotCommand {
  std::vector<std::string> results;
  std::string kind = "loss", out, rows;
};

ImageFormat format_of(const std::filesystem::path& path) {
  if (path.extension() == ".svg") return ImageFormat::svg;
  if (path.extension() == ".png") return ImageFormat::png;
  throw InputError(
      fmt::format("--out: found '{}', expected a name that ends in .svg or .png", path.string()));
}

/// NAME-KIND.svg beside the first result; several names are joined.
std::filesystem::path default_out(const PlotCommand& command) {
  std::string name;
  for (const std::string& path : command.results) {
    name += (name.empty() ? "" : "+") + std::filesystem::path(path).stem().string();
  }
  return std::filesystem::path(command.results[0]).replace_filename(name + "-" + command.kind + ".svg");
}

/// The full cache stays.
void keep_matching_rows(std::vector<ResultFile>& results, std::vector<Losses>& losses,
                        const std::string& pattern) {
  size_t left = 0;
  try {
    std::regex regex(pattern);
    for (size_t r = 0; r < results.size(); ++r) {
      std::vector<RowResult> rows;
      Losses kept;
      for (size_t i = 0; i < results[r].rows.size(); ++i) {
        if (i > 0 && !std::regex_search(printable(results[r].rows[i].name), regex)) continue;
        rows.push_back(results[r].rows[i]);
        if (!losses.empty()) kept.rows.push_back(std::move(losses[r].rows[i]));
      }
      left += rows.size() - 1;
      results[r].rows = std::move(rows);
      if (!losses.empty()) losses[r] = std::move(kept);
    }
  } catch (const std::regex_error&) {
    throw InputError(fmt::format("--rows {}: not a regular expression", pattern));
  }
  if (left == 0) throw InputError(fmt::format("--rows {}: matches no row", pattern));
}

Chart chart_of(const PlotCommand& command) {
  std::vector<ResultFile> results;
  std::vector<Losses> losses;
  for (const std::string& path : command.results) {
    results.push_back(read_result(path));
    if (command.kind == "position") losses.push_back(read_losses(losses_path(path), results.back()));
  }
  if (!command.rows.empty()) keep_matching_rows(results, losses, command.rows);
  if (command.kind == "loss") return loss_chart(results);
  return command.kind == "position" ? position_chart(results, losses) : keys_chart(results);
}

void run(const PlotCommand& command) {
  const std::string kinds[] = {"loss", "position", "keys"};
  if (std::find(std::begin(kinds), std::end(kinds), command.kind) == std::end(kinds)) {
    throw InputError(fmt::format("--kind: unknown '{}'{}", command.kind, hint(command.kind, kinds)));
  }
  std::filesystem::path out = command.out;
  if (out.empty()) out = default_out(command);
  ImageFormat format = format_of(out);
  Chart chart = chart_of(command);
  write_atomically(out, run_gnuplot(gnuplot_script(chart, format)));
  fmt::print("{}\n", printable(out.string()));
  if (chart.lines.size() > kManyLines && command.rows.empty()) {
    fmt::print(stderr, "{} lines in one plot: --rows REGEX picks some\n", chart.lines.size());
  }
}

}  // namespace

void register_plot(CLI::App& app) {
  auto command = std::make_shared<PlotCommand>();
  CLI::App* sub = app.add_subcommand("plot", "Draw results as SVG or PNG, with gnuplot");
  sub->add_option("results", command->results, "results/NAME.json, one or more")->required();
  sub->add_option("--kind", command->kind,
                  "loss: against tokens kept, one line a policy; position: loss against the position in the "
                  "window; keys: key statistics by layer")
      ->type_name("KIND")
      ->capture_default_str();
  sub->add_option("--rows", command->rows, "Only rows whose name matches (and the full cache)")
      ->type_name("REGEX");
  sub->add_option("--out", command->out, "FILE.svg or FILE.png (NAME-KIND.svg beside the result)")
      ->type_name("FILE");
  sub->callback([command] { run(*command); });
}

}  // namespace kvcost
