#include "src/report/layout.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <numeric>

#include "src/base/printable.h"

namespace kvcost {
namespace {

constexpr size_t kGap = 2;
/// Longest name in a plot's key.
constexpr size_t kWidestName = 78;
constexpr size_t kNarrowestName = 16;

std::string padded(const std::string& text, size_t width, TextGrid::Align align) {
  size_t have = display_width(text);
  std::string space(have < width ? width - have : 0, ' ');
  return align == TextGrid::Align::left ? text + space : space + text;
}

/// Broken at spaces into pieces of at most `width` columns; a word that is wider stays whole. The indent of
/// the first piece is given to the others, and two columns more.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  size_t indent = std::min(text.find_first_not_of(' '), text.size());
  std::vector<std::string> pieces;
  std::string piece(indent, ' ');
  bool empty = true;
  for (size_t at = indent; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!empty && display_width(piece) + 1 + display_width(word) > width) {
      pieces.push_back(piece);
      piece = std::string(indent + 2, ' ');
      empty = true;
    }
    if (!empty) piece += ' ';
    piece += word;
    empty = false;
  }
  pieces.push_back(piece);
  return pieces;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string grouped(std::string digits) {
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t total = 0;
  int cluster = 0;
  utf8proc_int32_t previous = 0, state = 0;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t point = 0;
    utf8proc_ssize_t read = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                             static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (read <= 0) read = 1, point = 0xFFFD;
    // A joined sequence (base and marks, emoji with joiners) is as wide as its widest part.
    if (at == 0 || utf8proc_grapheme_break_stateful(previous, point, &state)) {
      total += static_cast<size_t>(cluster);
      cluster = 0;
    }
    cluster = std::max(cluster, utf8proc_charwidth(point));
    previous = point;
    at += static_cast<size_t>(read);
  }
  return total + static_cast<size_t>(cluster);
}

std::string shortened(std::string_view text) {
  std::string out = printable(text);
  if (display_width(out) <= kWidestName) return out;
  while (display_width(out) > kWidestName - 3) {
    out.pop_back();
    // The rest of a character that was cut.
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0) out.pop_back();
  }
  return out + "...";
}

std::string with_commas(int64_t number) {
  std::string digits = fmt::format("{}", number);
  return number < 0 ? fmt::format("-{}", grouped(digits.substr(1))) : grouped(digits);
}

std::string with_commas(double number, int decimals) {
  std::string digits = fmt::format("{:.{}f}", number, decimals);
  size_t start = digits.starts_with('-') ? 1 : 0;
  size_t point = std::min(digits.find('.'), digits.size());
  return digits.substr(0, start) + grouped(digits.substr(start, point - start)) + digits.substr(point);
}

TextGrid::TextGrid(std::vector<Align> columns) : columns_(std::move(columns)) {}

void TextGrid::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  lines_.push_back({false, std::move(cells)});
}

void TextGrid::heading(std::string text) { lines_.push_back({true, {std::move(text)}}); }

std::vector<size_t> TextGrid::widths() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const Line& line : lines_) {
    if (line.heading) continue;
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], display_width(line.cells[c]));
  }
  return widths;
}

std::string TextGrid::text(size_t widest) const {
  std::vector<size_t> widths = this->widths();
  size_t others = std::accumulate(widths.begin() + 1, widths.end(), kGap * (widths.size() - 1));
  size_t room = widest > others ? widest - others : 0;
  size_t most = std::max(room, kNarrowestName);
  widths[0] = 0;
  for (const Line& line : lines_) {
    if (line.heading) continue;
    for (const std::string& piece : wrapped(line.cells[0], most)) {
      widths[0] = std::max(widths[0], display_width(piece));
    }
  }
  std::string out;
  for (const Line& line : lines_) {
    if (line.heading) {
      for (const std::string& piece : wrapped(line.cells[0], widest)) out += piece + "\n";
      continue;
    }
    std::vector<std::string> name = wrapped(line.cells[0], most);
    for (size_t i = 0; i + 1 < name.size(); ++i) out += name[i] + "\n";
    std::string last = padded(name.back(), widths[0], columns_[0]);
    for (size_t c = 1; c < widths.size(); ++c) {
      last += std::string(kGap, ' ') + padded(line.cells[c], widths[c], columns_[c]);
    }
    out += without_trailing_spaces(std::move(last)) + "\n";
  }
  return out;
}

std::string TextGrid::markdown() const {
  auto escaped = [](const std::string& cell) {
    std::string out;
    size_t start = std::min(cell.find_first_not_of(' '), cell.size());
    for (char c : cell.substr(start)) {
      if (c == '|' || c == '*' || c == '<' || c == '\\' || c == '`' || c == '_') out += '\\';
      out += c;
    }
    return out;
  };
  TextGrid clean(columns_);
  for (const Line& line : lines_) {
    std::vector<std::string> cells;
    for (const std::string& cell : line.cells) cells.push_back(escaped(cell));
    if (line.heading) cells[0] = fmt::format("**{}**", cells[0]);
    clean.row(cells);
  }
  std::vector<size_t> widths = clean.widths();
  for (size_t& width : widths) width = std::max<size_t>(width, 3);
  std::string out;
  for (size_t i = 0; i < clean.lines_.size(); ++i) {
    out += "|";
    for (size_t c = 0; c < widths.size(); ++c) {
      out += fmt::format(" {} |", padded(clean.lines_[i].cells[c], widths[c], columns_[c]));
    }
    out += "\n";
    if (i > 0) continue;
    out += "|";
    for (size_t c = 0; c < widths.size(); ++c) {
      std::string rule(widths[c], '-');
      out += fmt::format(" {}{}|", rule, columns_[c] == Align::left ? ' ' : ':');
    }
    out += "\n";
  }
  return out;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace kvcost
