#pragma once
#include <span>
#include <string>

#include "src/harness/config/kept_result.h"
#include "src/report/table.h"

namespace kvcost {

struct KeptTableOptions {
  TableFormat format = TableFormat::text;
  bool layers = false;  ///< the numbers of each layer too; CSV and JSON always have them
};

/// What rows keep, one line a row, and a matrix of how far they agree. CSV has one line a number: of a row,
/// or of a row and another; of a layer, or of all where the field is empty. JSON is a list of whole results.
std::string kept_tables(std::span<const KeptResult> results, const KeptTableOptions& options);

}  // namespace kvcost
