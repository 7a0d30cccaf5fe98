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

/// A number of each layer, and their mean.
struct ByLayer {
  double mean = 0;
  std::vector<double> layers;
};

/// What one row kept (docs/definitions.md, Kept sets).
struct KeptRow {
  std::string name, section;
  nlohmann::json config;  ///< the resolved row
  bool looks_ahead = false;
  double tokens_kept = 0;
  ByLayer attention;                ///< share of the full cache's attention on what the row keeps
  int64_t evictions = 0, ties = 0;  ///< by score, of all layers, heads and windows; 0 without scores
};

/// The Jaccard index of what two rows keep.
struct KeptPair {
  size_t a = 0, b = 0;  ///< rows, a < b
  ByLayer overlap;
};

/// results/NAME-kept.json of `kvcost kept`.
struct KeptResult : Provenance {
  static constexpr int64_t kSchemaVersion = 1;
  /// Pairs grow with the square of it.
  static constexpr size_t kMostRows = 200;
  std::optional<int64_t> bos;
  int64_t windows = 0, length = 0, scored = 0, layers = 0;
  std::vector<KeptRow> rows;
  std::vector<KeptPair> pairs;  ///< all of them: 0 and 1, 0 and 2, ... 1 and 2, ...

  /// Of two different rows, in any order.
  const ByLayer& overlap(size_t a, size_t b) const;
};

/// InputError naming `what` and the JSON path.
KeptResult parse_kept_result(std::string_view text, const std::string& what);
KeptResult read_kept_result(const std::filesystem::path& path);
nlohmann::ordered_json kept_result_to_json(const KeptResult& result);
/// Atomically.
void write_kept_result(const KeptResult& result, const std::filesystem::path& path);

}  // namespace kvcost
