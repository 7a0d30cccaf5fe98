// report/: what people read: tables, plots, comparisons with published numbers, memory budgets, key
// statistics. It formats what the harness measured; it measures no loss, and it returns strings: only cli/
// prints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcost {

/// Widest line of a text table, in terminal columns.
inline constexpr size_t kWidestLine = 110;

/// Terminal columns that UTF-8 text takes: combining marks none, East Asian wide characters two.
size_t display_width(std::string_view text);

/// `text`, printable, cut to what fits into a plot's key.
std::string shortened(std::string_view text);

/// 819200 -> "819,200".
std::string with_commas(int64_t number);

/// `number` to `decimals` places, thousands separated, halves to even as printf does.
std::string with_commas(double number, int decimals);

/// Cells in aligned columns.
class TextGrid {
 public:
  enum class Align { left, right };
  explicit TextGrid(std::vector<Align> columns);
  /// One cell a column; missing ones are empty. The first row is markdown's header.
  void row(std::vector<std::string> cells);
  /// A line over the whole width.
  void heading(std::string text);
  /// Lines of at most `widest` columns if the first column can be wrapped at its spaces to reach that; the
  /// numbers then stand beside the name's last line. No trailing spaces.
  std::string text(size_t widest = kWidestLine) const;
  std::string markdown() const;

 private:
  struct Line {
    bool heading = false;
    std::vector<std::string> cells;
  };
  std::vector<size_t> widths() const;
  std::vector<Align> columns_;
  std::vector<Line> lines_;
};

/// A CSV field, quoted where RFC 4180 asks for it.
std::string csv_field(std::string_view text);

}  // namespace kvcost
