#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/harness/config/result_file.h"
#include "src/harness/losses.h"
#include "src/report/gnuplot.h"

namespace kvcost {

/// Loss above the full cache's against mean tokens kept, one line a policy: rows whose "evict" differs only
/// in its capacity. Rows that round are left out, and the heading says how many. InputError if none is left.
Chart loss_chart(std::span<const ResultFile> results);

/// Loss against the position in the window, one line a row and the full cache's; `losses` has one entry a
/// result.
Chart position_chart(std::span<const ResultFile> results, std::span<const Losses> losses);

/// Key statistics by layer. InputError if a result has none.
Chart keys_chart(std::span<const ResultFile> results);

}  // namespace kvcost
