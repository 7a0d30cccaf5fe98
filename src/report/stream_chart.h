#pragma once
#include "src/harness/config/stream_result.h"
#include "src/report/gnuplot.h"

namespace kvcost {

/// Loss against position on a log scale, one line a row; a mark where the trained length ends. Blocks are
/// averaged so that a doubling of the position has four points at most.
Chart stream_chart(const StreamResult& result);

}  // namespace kvcost
