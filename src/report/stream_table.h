#pragma once
#include <span>
#include <string>

#include "src/harness/config/stream_result.h"
#include "src/report/table.h"

namespace kvcost {

/// Stream results, one after another: rows by doubling blocks of positions, then what they lose past the
/// trained length and against the full cache inside its limit, and what they took. CSV has one line a row;
/// JSON is a list of whole results.
std::string stream_table(std::span<const StreamResult> results, TableFormat format);

}  // namespace kvcost
