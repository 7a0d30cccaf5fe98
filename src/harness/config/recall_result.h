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

/// A mean over cases and, where there are two cases at least, its 95% interval with cases as the unit.
struct CaseMean {
  double mean = 0;
  std::optional<double> low, high;
};

/// One question under one row. Deltas are paired with the full cache on the same cases.
struct RecallScore {
  double loss_bits = 0;  ///< of a whole answer: the sum over its tokens; a mean over cases
  double recalled = 0;   ///< share of cases in which every answer token is the most probable one
  CaseMean delta_bits, recalled_delta;
};

/// One row decided at one point.
struct RecallCell {
  std::string decided;  ///< one of kDecisionPoints; empty: the row has no policy, nothing is decided
  double tokens_kept = 0, prompt_tokens = 0;  ///< of what stood before the decision; means over cases
  std::optional<RecallScore> first;           ///< none where the first answer came before the decision
  RecallScore follow_up;
  std::vector<RecallScore> follow_up_by_depth;
  double seconds = 0;  ///< per case, mean
  bool no_effect = false;
};

/// In the order of time.
inline constexpr const char* kDecisionPoints[] = {"before", "first", "both"};

struct RecallRow {
  std::string name, section;
  nlohmann::json config;  ///< the resolved row
  bool looks_ahead = false;
  std::vector<RecallCell> cells;
  /// The follow-up's loss decided after the first question less that decided after both.
  std::optional<CaseMean> follow_up_price_bits;
};

/// results/NAME.json of `kvcost recall`. The first row is the full cache.
struct RecallResult : Provenance {
  static constexpr int64_t kSchemaVersion = 1;
  int64_t cases = 0;
  std::vector<double> depths;
  double context_tokens = 0, answer_tokens = 0;  ///< means over cases, of an answer
  std::vector<RecallRow> rows;
};

/// InputError naming `what` and the JSON path.
RecallResult parse_recall_result(std::string_view text, const std::string& what);
RecallResult read_recall_result(const std::filesystem::path& path);
/// Atomically.
void write_recall_result(const RecallResult& result, const std::filesystem::path& path);

}  // namespace kvcost
