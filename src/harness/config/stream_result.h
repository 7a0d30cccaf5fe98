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

/// A mean over tokens.
struct StreamMean {
  double mean = 0;
  double standard_error = 0;  ///< sd (ddof 1) / sqrt(n), tokens taken as independent; NaN if n = 1
};

/// One row's losses less another's on the same tokens.
struct StreamDelta : StreamMean {
  std::optional<double> low, high;  ///< 95% interval over blocks; none with one block
};

struct StreamRow {
  std::string name, section;
  nlohmann::json config;  ///< the resolved row
  bool renumbered = false;
  int64_t tokens = 0;  ///< the row ends here: it has a loss for the tokens at 1 .. tokens - 1
  int64_t chunk = 0;   ///< tokens that were run at once
  /// Block b is the tokens at b * block_tokens .. (b + 1) * block_tokens - 1 that have a loss: one less in
  /// the first, what is left in the last.
  std::vector<double> block_loss_bits, block_sd_bits;  ///< mean, and sd (ddof 1; NaN of a single token)
  std::optional<StreamMean>
      past_trained;  ///< loss of the tokens from trained_tokens on; none if it ends before
  std::optional<StreamDelta> against_full;  ///< up to full_limit; none in the full cache's own row
  /// Of a renumbered row that has a twin with original positions: this less that, from trained_tokens on.
  std::optional<StreamDelta> renumbering;
  std::string renumbering_of;  ///< the twin's name
  double tokens_kept = 0;      ///< mean over the queries, layers and KV heads, itself counted
  int64_t cache_bytes = 0;     ///< the caches' memory in the end, fp32
  int64_t peak_bytes = 0;      ///< most memory resident while the row ran, weights included
  double seconds = 0;
};

/// results/NAME.json of `kvcost stream`. The first row is the full cache.
struct StreamResult : Provenance {
  static constexpr int64_t kSchemaVersion = 1;
  std::optional<int64_t> bos;  ///< id put before each document, by the tokenizer's own default
  int64_t documents = 0;       ///< that follow one another as one text
  int64_t tokens = 0;
  int64_t trained_tokens = 0;  ///< positions the model was trained on
  int64_t full_limit = 0;      ///< where rows without a bound end
  int64_t block_tokens = 0;
  std::vector<StreamRow> rows;

  /// Tokens with a loss in block `block` of a row.
  int64_t scored(const StreamRow& row, size_t block) const;
};

/// InputError naming `what` and the JSON path.
StreamResult parse_stream_result(std::string_view text, const std::string& what);
StreamResult read_stream_result(const std::filesystem::path& path);
nlohmann::ordered_json stream_result_json(const StreamResult& result);
/// Atomically.
void write_stream_result(const StreamResult& result, const std::filesystem::path& path);

}  // namespace kvcost
