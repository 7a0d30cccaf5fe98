#pragma once
#include <cstdint>
#include <vector>

#include "src/harness/losses.h"
#include "src/report/layout.h"

namespace kvcost {

/// Consecutive positions of a window, both ends included; the window's first token is at 0.
struct PositionBlock {
  int64_t first = 0, last = 0;
  double middle() const { return 0.5 * static_cast<double>(first + last); }
};

/// The scored part of a window cut into `count` blocks as even as can be; fewer if it has fewer tokens.
std::vector<PositionBlock> position_blocks(const ResultFile& result, int64_t count);

/// Mean loss of each block over the windows of one row, [windows][scored].
std::vector<double> block_means(const std::vector<std::vector<double>>& windows, const ResultFile& result,
                                const std::vector<PositionBlock>& blocks);

/// The full cache's loss in each block and what every row adds to it, a few blocks a grid.
std::vector<TextGrid> position_grids(const ResultFile& result, const Losses& losses,
                                     const std::vector<PositionBlock>& blocks);

}  // namespace kvcost
