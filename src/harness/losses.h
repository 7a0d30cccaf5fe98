#pragma once
#include <filesystem>
#include <vector>

#include "src/harness/config/result_file.h"

namespace kvcost {

/// What every scored token cost, in every row of a result.
struct Losses {
  std::vector<std::vector<std::vector<double>>> rows;  ///< [rows as in the result][windows][scored], bits
};

/// NAME.safetensors beside NAME.json.
std::filesystem::path losses_path(const std::filesystem::path& result_path);

/// InputError naming the file and the row if the file is not the one that was written with `result`.
Losses read_losses(const std::filesystem::path& path, const ResultFile& result);

}  // namespace kvcost
