#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "src/harness/config/result_file.h"
#include "src/harness/losses.h"

namespace kvcost {

enum class TableFormat { text, markdown, csv, json };

struct TableOptions {
  TableFormat format = TableFormat::text;
  /// Adds the other measures: KL, top-1 agreement, change of the true token's probability, tokens kept, time.
  bool measures = false;
  /// Several results: their losses side by side, rows matched by section and name. Otherwise one after
  /// another.
  bool beside = false;
  /// Adds the loss in this many blocks of positions; 0: none.
  int64_t position_blocks = 0;
};

/// Whether per-token losses would add to the table of `result`; only positions cannot do without.
bool wants_losses(const ResultFile& result, const TableOptions& options);

/// Results laid out as the published table: one line a row, sections as headings. Text is at most kWidestLine
/// columns wide, except that `beside` widens it for each result that does not fit. CSV has one line a row
/// with every field of the row and of its result; JSON is a list of whole results. Where a result has rows of
/// random and of oracle eviction at one capacity, the gap closed by the others too. `losses`: one entry a
/// result, or none at all.
std::string table(std::span<const ResultFile> results, const TableOptions& options,
                  std::span<const std::optional<Losses>> losses = {});

/// Every field of a result.
nlohmann::ordered_json result_to_json(const ResultFile& result);

/// One line for each of the "rows" of a list of results as JSON, with every field of the row and of its
/// result.
std::string results_csv(const nlohmann::ordered_json& results);

/// "(+1.894 ± 0.031)".
std::string delta_cell(double delta_bits, double se_bits);

}  // namespace kvcost
