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
#include "src/report/stream_chart.h"

namespace kvcost {
namespace {

/// More lines than this in one plot are hard to follow.
constexpr size_t kManyLines = 8;

struct PlotCommand {
  std::vector<std::string> results;
  std::string kind, out, rows;
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

/// Numbers of the rows that stay: the full cache, and those whose name matches.
template <class Row>
std::vector<size_t> matching(const std::vector<Row>& rows, const std::string& pattern) {
  std::vector<size_t> kept;
  try {
    std::regex regex(pattern);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i == 0 || std::regex_search(printable(rows[i].name), regex)) kept.push_back(i);
    }
  } catch (const std::regex_error&) {
    throw InputError(fmt::format("--rows {}: not a regular expression", pattern));
  }
  return kept;
}

template <class Entry>
void keep(std::vector<Entry>& entries, const std::vector<size_t>& kept) {
  std::vector<Entry> chosen;
  for (size_t i : kept) chosen.push_back(std::move(entries[i]));
  entries = std::move(chosen);
}

void keep_matching_rows(std::vector<ResultFile>& results, std::vector<Losses>& losses,
                        const std::string& pattern) {
  size_t left = 0;
  for (size_t r = 0; r < results.size(); ++r) {
    const std::vector<size_t> kept = matching(results[r].rows, pattern);
    keep(results[r].rows, kept);
    if (!losses.empty()) keep(losses[r].rows, kept);
    left += kept.size() - 1;
  }
  if (left == 0) throw InputError(fmt::format("--rows {}: matches no row", pattern));
}

/// A stream's losses are drawn against the position, and nothing else.
Chart stream_chart_of(const PlotCommand& command) {
  if (command.results.size() != 1) {
    throw InputError(fmt::format("{}: found {} results, expected one: it is a stream's", command.results[0],
                                 command.results.size()));
  }
  StreamResult result = read_stream_result(command.results[0]);
  if (!command.rows.empty()) {
    const std::vector<size_t> kept = matching(result.rows, command.rows);
    if (kept.size() < 2) throw InputError(fmt::format("--rows {}: matches no row", command.rows));
    keep(result.rows, kept);
  }
  return stream_chart(result);
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

/// What a result is drawn as if nothing is said.
void choose_kind(PlotCommand& command, bool stream) {
  if (command.kind.empty()) command.kind = stream ? "position" : "loss";
  const std::string kinds[] = {"loss", "position", "keys"};
  if (std::find(std::begin(kinds), std::end(kinds), command.kind) == std::end(kinds)) {
    throw InputError(fmt::format("--kind: unknown '{}'{}", command.kind, hint(command.kind, kinds)));
  }
  if (stream && command.kind != "position") {
    throw InputError(fmt::format("--kind: found '{}', expected 'position': {} is a stream's result",
                                 command.kind, command.results[0]));
  }
}

void run(PlotCommand& command) {
  const bool stream = result_kind(command.results[0]) == "stream";
  choose_kind(command, stream);
  std::filesystem::path out = command.out;
  if (out.empty()) out = default_out(command);
  ImageFormat format = format_of(out);
  Chart chart = stream ? stream_chart_of(command) : chart_of(command);
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
                  "loss: against tokens kept, one line a policy (the default); position: loss against the "
                  "position in the window or stream (a stream's default); keys: key statistics by layer")
      ->type_name("KIND");
  sub->add_option("--rows", command->rows, "Only rows whose name matches (and the full cache)")
      ->type_name("REGEX");
  sub->add_option("--out", command->out, "FILE.svg or FILE.png (NAME-KIND.svg beside the result)")
      ->type_name("FILE");
  sub->callback([command] { run(*command); });
}

}  // namespace kvcost
