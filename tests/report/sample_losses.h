// Per-token losses that agree with a made-up result.
#pragma once
#include "src/harness/losses.h"
#include "src/model/formats/safetensors.h"
#include "tests/report/sample_result.h"

namespace kvcost {

/// Every row's loss rises evenly over the scored part, by one bit, and from window to window, by `slope` for
/// each row after the full cache's; its mean is the row's.
inline Losses sample_losses(const ResultFile& result, double slope = 0.01) {
  Losses losses;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    auto& windows = losses.rows.emplace_back();
    for (int64_t w = 0; w < result.windows; ++w) {
      auto& window = windows.emplace_back();
      double middle = 0.5 * static_cast<double>(result.windows - 1);
      double of_window = slope * static_cast<double>(r) * (static_cast<double>(w) - middle);
      for (int64_t t = 0; t < result.scored; ++t) {
        double of_token = (static_cast<double>(t) + 0.5) / static_cast<double>(result.scored) - 0.5;
        window.push_back(result.rows[r].loss_bits + of_window + of_token);
      }
    }
  }
  return losses;
}

inline void write_sample_losses(const Losses& losses, const ResultFile& result,
                                const std::filesystem::path& path) {
  SafetensorsWriter writer;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    std::vector<double> all;
    for (const auto& window : losses.rows[r]) all.insert(all.end(), window.begin(), window.end());
    writer.add<double>(result.rows[r].name, {result.windows, result.scored}, all);
  }
  writer.write(path);
}

}  // namespace kvcost
