#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// What a plot shows, before it is anyone's drawing commands.
struct Chart {
  struct Point {
    double x = 0, y = 0;
    std::optional<double> low, high;  ///< ends of the error bar; both or none
  };
  struct Line {
    std::string name;
    std::vector<Point> points;
    bool reference = false;  ///< what the others are compared with: a plain heavy line
  };
  struct Tic {
    double at = 0;
    std::string label;
  };
  std::vector<std::string> heading;  ///< lines above the plot
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
  bool zero_line = false;    ///< a thin line at y = 0
  std::vector<Tic> x_tics;   ///< none: where gnuplot puts them
  std::vector<Tic> x_marks;  ///< dotted lines from bottom to top, the label beside their upper end
  std::vector<Line> lines;
};

enum class ImageFormat { svg, png };

/// A gnuplot string that is exactly `text`, less what printable() takes out of it.
std::string gnuplot_string(std::string_view text);

/// Draws on stdout. Lines differ in point type and dashes, so that no colour is needed to tell them apart.
std::string gnuplot_script(const Chart& chart, ImageFormat format);

/// What gnuplot writes to stdout for `script`; it reads no settings of the user's. Failure if it cannot be
/// run, naming the package that has it, or if it ends with an error.
std::string run_gnuplot(const std::string& script);

}  // namespace kvcost
