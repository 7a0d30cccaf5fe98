#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/cache/row_cache.h"
#include "src/harness/config/experiment.h"
#include "src/harness/recall_cases.h"
#include "src/harness/unit_store.h"
#include "src/model/decoder.h"

namespace kvcost {

/// A row's cache whole, and without its policy.
struct RecallRowCache {
  explicit RecallRowCache(const RowSpec& spec);
  std::unique_ptr<RowCache> whole, rounding;
};

/// The answer tokens of a case, first question's before follow-up's: positions in its ids.
std::vector<int64_t> answer_positions(const RecallCase& of);

/// Measures rows in one case. A unit has one loss and one is_top1 for each answer token of both questions;
/// its tokens_kept are the prompt's that are left after the decision. The full cache runs first, when it is
/// first needed.
class CaseMeasurer {
 public:
  /// Both must outlive it.
  CaseMeasurer(const Decoder& decoder, const RecallCase& of);
  const Unit& full();
  /// One unit for each of `decided_at`, each a prompt's length in tokens. Where the policy decides on the
  /// way, one pass serves them all. A row without a policy takes a single one, of any value.
  std::vector<Unit> row(RecallRowCache& row, std::span<const int64_t> decided_at);

 private:
  CacheShape shape(int64_t prompt) const;
  Pass pass_from(int64_t start, const std::vector<LayerKv>& prefix) const;
  void score(Unit& unit, Pass pass, bool all_queries) const;
  int64_t first_needed() const { return positions_.front() - 1; }

  const Decoder& decoder_;
  const RecallCase& case_;
  std::vector<int64_t> positions_;
  std::vector<int32_t> targets_;
  std::vector<LayerKv> kv_;
  std::optional<Unit> full_;
};

}  // namespace kvcost
