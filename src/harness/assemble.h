#pragma once
#include <filesystem>
#include <vector>

#include "src/harness/config/experiment.h"
#include "src/harness/config/result_file.h"
#include "src/harness/unit_store.h"

namespace kvcost {

/// All units of one row.
struct RowUnits {
  std::vector<Unit> windows;
  std::vector<std::vector<Unit>> perturbed;  ///< [repeats][perturbed windows]
};

/// One row's measures; `row` may be the full cache itself.
RowResult assemble_row(const RowUnits& row, const RowUnits& full);

/// Per-token losses, one [windows, scored] F64 tensor a row under the row's name; of a perturbed row also one
/// of [repeats, perturbed windows, scored] under "NAME\tperturbed" (no row's name has a tab).
void write_losses(const std::vector<std::string>& names, const std::vector<RowUnits>& rows,
                  const std::filesystem::path& path);

}  // namespace kvcost
