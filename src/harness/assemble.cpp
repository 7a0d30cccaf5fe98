#include "src/harness/assemble.h"

#include "src/harness/statistics.h"
#include "src/model/formats/safetensors.h"

namespace kvcost {
namespace {

std::vector<std::vector<double>> losses(const std::vector<Unit>& windows) {
  std::vector<std::vector<double>> all;
  for (const Unit& unit : windows) all.push_back(unit.loss_bits);
  return all;
}

/// Every token's loss, window after window.
void append_losses(const std::vector<Unit>& windows, std::vector<double>& all) {
  for (const Unit& unit : windows) all.insert(all.end(), unit.loss_bits.begin(), unit.loss_bits.end());
}

/// Windows have equally many tokens, so a mean of means is the mean over tokens.
template <class Get>
double mean_over(const std::vector<Unit>& windows, Get get) {
  std::vector<double> values;
  for (const Unit& unit : windows) values.push_back(get(unit));
  return mean(values);
}

double mean_loss(const std::vector<Unit>& windows) {
  return mean_over(windows, [](const Unit& unit) { return mean(unit.loss_bits); });
}

double agreement(const Unit& unit) {
  double agree = 0;
  for (uint8_t same : unit.top1_agrees) agree += same;
  return agree / static_cast<double>(unit.top1_agrees.size());
}

}  // namespace

RowResult assemble_row(const RowUnits& row, const RowUnits& full) {
  RowResult result;
  PairedDifference paired = paired_difference(losses(row.windows), losses(full.windows));
  result.loss_bits = mean_loss(row.windows);
  result.delta_bits = paired.mean;
  result.delta_se_bits = paired.standard_error;
  result.delta_low_bits = paired.low;
  result.delta_high_bits = paired.high;
  result.kl_bits = mean_over(row.windows, [](const Unit& unit) { return mean(unit.kl_bits); });
  result.top1_agreement = mean_over(row.windows, agreement);
  result.true_probability_change =
      mean_over(row.windows, [](const Unit& unit) { return mean(unit.true_probability_change); });
  result.tokens_kept = mean_over(row.windows, [](const Unit& unit) { return unit.tokens_kept; });
  result.stored_bytes_per_token =
      mean_over(row.windows, [](const Unit& unit) { return unit.stored_bytes_per_token; });
  result.effective_bits = mean_over(row.windows, [](const Unit& unit) { return unit.effective_bits; });
  result.seconds = mean_over(row.windows, [](const Unit& unit) { return unit.seconds; });
  bool effect = false;
  for (const Unit& unit : row.windows) effect = effect || unit.evicted || unit.changed;
  result.no_effect = !effect;
  if (!row.perturbed.empty()) {
    std::vector<double> repeats;
    for (const auto& windows : row.perturbed) repeats.push_back(mean_loss(windows));
    result.spread_bits = standard_deviation(repeats);
    result.spread_repeats = static_cast<int64_t>(repeats.size());
    result.spread_windows = static_cast<int64_t>(row.perturbed[0].size());
  }
  return result;
}

void write_losses(const std::vector<std::string>& names, const std::vector<RowUnits>& rows,
                  const std::filesystem::path& path) {
  SafetensorsWriter writer;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<double> all;
    append_losses(rows[r].windows, all);
    const auto windows = static_cast<int64_t>(rows[r].windows.size());
    const int64_t scored = static_cast<int64_t>(all.size()) / windows;
    writer.add<double>(names[r], {windows, scored}, all);
    if (rows[r].perturbed.empty()) continue;
    all.clear();
    for (const auto& repeat : rows[r].perturbed) append_losses(repeat, all);
    const auto repeats = static_cast<int64_t>(rows[r].perturbed.size());
    writer.add<double>(names[r] + "\tperturbed",
                       {repeats, static_cast<int64_t>(rows[r].perturbed[0].size()), scored}, all);
  }
  writer.set_metadata("unit",
                      "loss in bits, [windows, scored tokens]; perturbed: [repeats, windows, scored tokens]");
  writer.write(path);
}

}  // namespace kvcost
