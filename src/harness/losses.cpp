#include "src/harness/losses.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/harness/statistics.h"
#include "src/model/formats/safetensors.h"

namespace kvcost {
namespace {

/// The result's number is a mean of window means: the same but for the order of the sums.
constexpr double kRoundOff = 1e-6;

}  // namespace

std::filesystem::path losses_path(const std::filesystem::path& result_path) {
  return std::filesystem::path(result_path).replace_extension(".safetensors");
}

Losses read_losses(const std::filesystem::path& path, const ResultFile& result) {
  SafetensorsFile file = SafetensorsFile::open(path);
  Losses losses;
  std::set<std::string> names;
  for (const RowResult& row : result.rows) {
    auto refuse = [&](const std::string& what) {
      throw InputError(fmt::format("{}: row '{}': {}", path.string(), printable(row.name), what));
    };
    if (!names.insert(row.name).second) refuse("the result has two rows of this name");
    const SafetensorsTensor* tensor = file.find(row.name);
    if (tensor == nullptr) refuse("found no losses: the file belongs to another result");
    if (tensor->shape != std::vector<int64_t>{result.windows, result.scored}) {
      refuse(fmt::format("found {} losses, expected {} windows of {}", tensor->numbers(), result.windows,
                         result.scored));
    }
    std::vector<double> all = file.numbers<double>(row.name);
    if (!(std::abs(mean(all) - row.loss_bits) <= kRoundOff * std::max(1.0, std::abs(row.loss_bits)))) {
      refuse(
          fmt::format("found a mean of {:.6f} bits, expected the result's {:.6f}", mean(all), row.loss_bits));
    }
    std::vector<std::vector<double>>& windows = losses.rows.emplace_back();
    for (auto at = all.begin(); at != all.end(); at += result.scored) {
      windows.emplace_back(at, at + result.scored);
    }
  }
  return losses;
}

}  // namespace kvcost
