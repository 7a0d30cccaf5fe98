#include "src/report/by_position.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/printable.h"

namespace kvcost {
namespace {

constexpr size_t kBlocksInAGrid = 8;

}  // namespace

std::vector<PositionBlock> position_blocks(const ResultFile& result, int64_t count) {
  count = std::min(count, result.scored);
  int64_t start = result.length - result.scored;
  // The first scored % count blocks are one token longer.
  int64_t size = result.scored / count, longer = result.scored % count;
  std::vector<PositionBlock> blocks;
  for (int64_t i = 0; i < count; ++i) {
    int64_t tokens = size + (i < longer ? 1 : 0);
    blocks.push_back({start, start + tokens - 1});
    start += tokens;
  }
  return blocks;
}

std::vector<double> block_means(const std::vector<std::vector<double>>& windows, const ResultFile& result,
                                const std::vector<PositionBlock>& blocks) {
  int64_t start = result.length - result.scored;
  std::vector<double> means;
  for (const PositionBlock& block : blocks) {
    double sum = 0;
    for (const std::vector<double>& window : windows) {
      for (int64_t p = block.first; p <= block.last; ++p) sum += window[static_cast<size_t>(p - start)];
    }
    means.push_back(sum / static_cast<double>((block.last - block.first + 1) * windows.size()));
  }
  return means;
}

std::vector<TextGrid> position_grids(const ResultFile& result, const Losses& losses,
                                     const std::vector<PositionBlock>& blocks) {
  using Align = TextGrid::Align;
  std::vector<std::vector<double>> means;
  for (const auto& row : losses.rows) means.push_back(block_means(row, result, blocks));
  std::vector<TextGrid> grids;
  for (size_t first = 0; first < blocks.size(); first += kBlocksInAGrid) {
    size_t last = std::min(first + kBlocksInAGrid, blocks.size());
    std::vector<Align> columns(1 + last - first, Align::right);
    columns[0] = Align::left;
    TextGrid grid(columns);
    std::vector<std::string> header = {"from position"};
    for (size_t b = first; b < last; ++b) header.push_back(with_commas(blocks[b].first));
    grid.row(header);
    std::string section;
    for (size_t r = 0; r < means.size(); ++r) {
      const RowResult& row = result.rows[r];
      if (r > 0 && row.section != section) {
        section = row.section;
        grid.heading(section.empty() ? "other rows" : printable(section));
      }
      std::vector<std::string> cells = {(r == 0 ? "" : "  ") + printable(row.name)};
      for (size_t b = first; b < last; ++b) {
        cells.push_back(r == 0 ? fmt::format("{:.3f}", means[0][b])
                               : fmt::format("{:+.3f}", means[r][b] - means[0][b]));
      }
      grid.row(cells);
    }
    grids.push_back(std::move(grid));
  }
  return grids;
}

}  // namespace kvcost
