#include "src/report/gnuplot.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <sstream>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/report/layout.h"

extern char** environ;

namespace kvcost {
namespace {

// In units of the SVG; a PNG has kPngScale pixels for each.
constexpr int kWidth = 620, kPlotHeight = 400, kFont = 14, kKeyFont = 12, kKeyLine = 18, kPngScale = 2;
/// Columns of text that fit into one of two columns of the key.
constexpr size_t kHalfKey = 36;

/// Shapes first that are hard to mistake for each other. The three lists have no common factor, so that
/// hundreds of lines go by before two look alike.
constexpr int kPointTypes[] = {7, 4, 9, 12, 2, 5, 6, 11, 1, 8, 13, 3, 10};
constexpr const char* kDashes[] = {"solid", "(9,4)", "(2,3)", "(10,3,2,3)", "(18,5)"};
/// Dark enough on paper, and told apart by most colour-blind readers.
constexpr const char* kColours[] = {"#000000", "#0060a0", "#a8480a", "#00694f",
                                    "#802268", "#5a5a5a", "#7a5c00"};

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.10g}", value) : "NaN"; }

bool has_bars(const Chart::Line& line) {
  return std::any_of(line.points.begin(), line.points.end(),
                     [](const Chart::Point& point) { return point.low && point.high; });
}

std::string data_of(const Chart::Line& line, size_t index) {
  std::string out = fmt::format("$line{} << end_of_line\n", index);
  for (const Chart::Point& point : line.points) {
    bool bar = point.low && point.high;
    out += fmt::format("{} {} {} {}\n", number(point.x), number(point.y), number(bar ? *point.low : NAN),
                       number(bar ? *point.high : NAN));
  }
  return out + "end_of_line\n";
}

std::string style_of(size_t index) {
  return fmt::format("pt {} dt {} lc rgb '{}'", kPointTypes[index % std::size(kPointTypes)],
                     kDashes[index % std::size(kDashes)], kColours[index % std::size(kColours)]);
}

std::string plots_of(const Chart& chart) {
  std::vector<std::string> plots, on_top;
  size_t style = 0;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const Chart::Line& line = chart.lines[i];
    std::string title = "title " + gnuplot_string(line.name);
    if (line.reference) {
      std::string look = fmt::format("$line{} using 1:2 with lines lw 2.5 dt solid lc rgb '#000000' ", i);
      plots.push_back(look + title);
      on_top.push_back(look + "notitle");
      continue;
    }
    std::string look = style_of(style++);
    if (has_bars(line)) {
      std::string colour = look.substr(look.find("lc "));
      // Point type 0 is a dot that the line's own point covers.
      plots.push_back(
          fmt::format("$line{} using 1:2:3:4 with yerrorbars notitle lw 1.2 pt 0 dt solid {}", i, colour));
    }
    plots.push_back(fmt::format("$line{} using 1:2 with linespoints {} lw 1.6 ps 0.9 {}", i, title, look));
  }
  plots.insert(plots.end(), on_top.begin(), on_top.end());
  std::string out = "plot ";
  for (size_t i = 0; i < plots.size(); ++i) out += (i > 0 ? ", \\\n  " : "") + plots[i];
  return out + "\n";
}

/// Where the points end, and a little room.
std::string range_of(const Chart& chart, bool log, double Chart::Point::*axis) {
  double least = INFINITY, most = -INFINITY;
  for (const Chart::Line& line : chart.lines) {
    for (const Chart::Point& point : line.points) {
      if (!std::isfinite(point.*axis)) continue;
      least = std::min(least, point.*axis), most = std::max(most, point.*axis);
    }
  }
  if (least > most) return "[*:*]";
  if (log) {
    double room = std::max(std::pow(most / least, 0.08), 1.1);
    return fmt::format("[{}:{}]", number(least / room), number(most * room));
  }
  double room = most > least ? 0.03 * (most - least) : 1;
  return fmt::format("[{}:{}]", number(least - room), number(most + room));
}

std::string terminal(ImageFormat format, int height) {
  if (format == ImageFormat::svg) {
    return fmt::format("set terminal svg noenhanced size {},{} font 'sans-serif,{}' background '#ffffff'\n",
                       kWidth, height, kFont);
  }
  return fmt::format(
      "set terminal pngcairo noenhanced size {},{} font 'Sans,{}' fontscale {} linewidth {} pointscale {} "
      "background '#ffffff'\n",
      kWidth * kPngScale, height * kPngScale, kFont * 3 / 4.0, kPngScale, kPngScale, kPngScale);
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File unnamed_file(const std::string& content = {}) {
  File file(std::tmpfile(), std::fclose);
  bool good = file && std::fwrite(content.data(), 1, content.size(), file.get()) == content.size() &&
              std::fflush(file.get()) == 0;
  if (!good) throw Failure(fmt::format("gnuplot: cannot write a temporary file: {}", std::strerror(errno)));
  std::rewind(file.get());
  return file;
}

std::string content_of(std::FILE* file) {
  std::string out;
  char buffer[1 << 14];
  std::rewind(file);
  while (size_t n = std::fread(buffer, 1, sizeof buffer, file)) out.append(buffer, n);
  return out;
}

/// gnuplot shows the command and points at a place in it; what is wrong comes last.
std::string last_line(const std::string& text) {
  std::istringstream in(text);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(' ') != std::string::npos) last = line.substr(line.find_first_not_of(' '));
  }
  return printable(last);
}

}  // namespace

std::string gnuplot_string(std::string_view text) {
  // Not single quotes: gnuplot reads ''''a' as two strings. Between double quotes a backquote would run a
  // command and @ expand a macro; octal escapes that begin with 1 end after three digits.
  std::string out = "\"";
  for (char c : printable(text)) {
    switch (c) {
      case '"':
      case '\\':
        out += '\\';
        out += c;
        break;
      case '`':
        out += "\\140";
        break;
      case '@':
        out += "\\100";
        break;
      default:
        out += c;
    }
  }
  return out + '"';
}

std::string gnuplot_script(const Chart& chart, ImageFormat format) {
  size_t longest = 0;
  for (const Chart::Line& line : chart.lines) longest = std::max(longest, display_width(line.name));
  int columns = longest <= kHalfKey ? 2 : 1;
  int key_lines = (static_cast<int>(chart.lines.size()) + columns - 1) / columns;
  std::string heading;
  for (const std::string& line : chart.heading) {
    heading += (heading.empty() ? "" : ".\"\\n\".") + gnuplot_string(line);
  }
  std::string script = terminal(format, kPlotHeight + kKeyLine * key_lines);
  script +=
      "set encoding utf8\nset border 3 lw 1\nset tics nomirror out\nset grid ytics lt 1 lw 0.5 lc rgb "
      "'#cccccc'\n";
  script += fmt::format(
      "set key below left Left reverse vertical maxrows {} samplen 5 spacing 1.05 height 1.5 font ',{}'\n",
      key_lines, format == ImageFormat::svg ? kKeyFont : kKeyFont * 3 / 4.0);
  if (!heading.empty()) {
    script += fmt::format("set title {} font ',{}'\n", heading,
                          format == ImageFormat::svg ? kKeyFont : kKeyFont * 3 / 4.0);
  }
  script += fmt::format("set xlabel {}\nset ylabel {}\n", gnuplot_string(chart.x_label),
                        gnuplot_string(chart.y_label));
  if (chart.log_x) script += "set logscale x 2\n";
  if (chart.log_y) script += "set logscale y\n";
  if (!chart.x_tics.empty()) {
    std::string tics;
    for (const Chart::Tic& tic : chart.x_tics) {
      tics += fmt::format("{}{} {}", tics.empty() ? "" : ", ", gnuplot_string(tic.label), number(tic.at));
    }
    script += "set xtics (" + tics + ")\n";
  }
  script += fmt::format("set xrange {}\n", range_of(chart, chart.log_x, &Chart::Point::x));
  if (chart.log_y) script += fmt::format("set yrange {}\n", range_of(chart, true, &Chart::Point::y));
  for (const Chart::Tic& mark : chart.x_marks) {
    script += fmt::format(
        "set arrow from first {0}, graph 0 to first {0}, graph 1 nohead lw 1 dt (2,3) lc rgb "
        "'#000000'\nset label {1} at first {0}, graph 0.97 offset character 0.5,0 font ',{2}'\n",
        number(mark.at), gnuplot_string(mark.label),
        format == ImageFormat::svg ? kKeyFont : kKeyFont * 3 / 4.0);
  }
  if (chart.zero_line) script += "set xzeroaxis lt 1 lw 1 dt (2,3) lc rgb '#000000'\n";
  for (size_t i = 0; i < chart.lines.size(); ++i) script += data_of(chart.lines[i], i);
  return script + plots_of(chart);
}

std::string run_gnuplot(const std::string& script) {
  File in = unnamed_file(script), out = unnamed_file(), err = unnamed_file();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), 1);
  posix_spawn_file_actions_adddup2(&actions, fileno(err.get()), 2);
  std::string program = "gnuplot", defaults = "-d";
  char* arguments[] = {program.data(), defaults.data(), nullptr};
  pid_t child = -1;
  int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) throw Failure("gnuplot: not found; plots need the package gnuplot-nox");
  if (error != 0) throw Failure(fmt::format("gnuplot: cannot be run: {}", std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  std::string image = content_of(out.get());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || image.empty()) {
    throw Failure("gnuplot failed: " + last_line(content_of(err.get())));
  }
  return image;
}

}  // namespace kvcost
