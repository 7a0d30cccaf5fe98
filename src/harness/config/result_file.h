#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/harness/config/provenance.h"

namespace kvcost {

/// One row's measures, over all scored tokens of all windows (DEFINITIONS: docs/definitions.md).
struct RowResult {
  std::string name;
  std::string section;    ///< heading the row stands under in tables; may be empty
  nlohmann::json config;  ///< the resolved row
  double loss_bits = 0;
  double delta_bits = 0;                                  ///< mean over tokens of loss_row - loss_full
  double delta_se_bits = 0;                               ///< the published ±: sd(d, ddof 1) / sqrt(n)
  std::optional<double> delta_low_bits, delta_high_bits;  ///< 95% interval over windows; none with one window
  double kl_bits = 0;                                     ///< mean KL(full || row)
  double top1_agreement = 0;  ///< share of positions whose top-1 token is the full cache's
  double true_probability_change = 0;
  double tokens_kept = 0;             ///< mean over the queries that predict scored tokens, itself counted
  double stored_bytes_per_token = 0;  ///< of the whole cache at the window's end, per token of context
  double effective_bits = 0;          ///< bits per stored number
  std::optional<double> spread_bits;  ///< sd of the row's loss under perturbation
  int64_t spread_windows = 0, spread_repeats = 0;
  double seconds = 0;      ///< per window, mean
  bool no_effect = false;  ///< evicted nothing and changed no number
  bool looks_ahead = false;
};

/// results/NAME.json: everything a table needs. The first row is the full cache.
struct ResultFile : Provenance {
  static constexpr int64_t kSchemaVersion = 1;
  std::string capability;      ///< of the processor that wrote it
  std::optional<int64_t> bos;  ///< id put before each document, by the tokenizer's own default
  int64_t windows = 0, length = 0, scored = 0;
  std::vector<RowResult> rows;
  nlohmann::json key_statistics;  ///< as `kvcost stats` prints; may be null
};

/// InputError naming `what` and the JSON path.
ResultFile parse_result(std::string_view text, const std::string& what);
ResultFile read_result(const std::filesystem::path& path);
/// Atomically.
void write_result(const ResultFile& result, const std::filesystem::path& path);

}  // namespace kvcost
