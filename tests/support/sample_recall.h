#pragma once
#include "src/harness/config/recall_result.h"

namespace kvcost {

/// A result with the full cache, a row decided at all points, and one that only rounds.
inline RecallResult sample_recall() {
  auto score = [](double loss, double recalled, double delta) {
    RecallScore made;
    made.loss_bits = loss, made.recalled = recalled;
    made.delta_bits = {delta, delta - 2, delta + 2};
    made.recalled_delta = {recalled - 0.875, {}, {}};
    return made;
  };
  auto cell = [&](const std::string& decided, double delta) {
    RecallCell made;
    made.decided = decided;
    made.tokens_kept = delta > 0 ? 256 : 1020, made.prompt_tokens = 1020;
    if (decided != "both") made.first = score(1 + delta / 2, 0.5, delta / 2);
    made.follow_up = score(1 + delta, 0.25, delta);
    made.follow_up_by_depth = {score(1 + delta, 0.25, delta), score(1, 1, 0)};
    made.seconds = 2.5;
    return made;
  };
  RecallResult result;
  result.name = "recall", result.config = {{"model", "m"}}, result.model = "m";
  result.program_version = "0.1.0", result.commit = "unknown", result.host = "h", result.processor = "p";
  result.dtype = "fp32", result.capabilities = {"AVX2"}, result.threads = 2;
  result.weights_sha256 = result.tokenizer_sha256 = result.text_sha256 = "0";
  result.cases = 64, result.depths = {0.1, 0.9}, result.context_tokens = 1003.5, result.answer_tokens = 1.25;
  RecallRow full, snap, codec;
  full.name = "full cache", full.config = nlohmann::json::object();
  full.cells = {cell("", 0)};
  snap.name = "snapkv, 256", snap.config = {{"evict", {{"policy", "snapkv"}}}};
  snap.cells = {cell("before", 6.5), cell("first", 6.5), cell("both", 0)};
  snap.cells[2].no_effect = true;
  snap.follow_up_price_bits = CaseMean{6.5, 4.0, 9.0};
  codec.name = "4-bit keys", codec.config = {{"keys", {{"codec", "minmax"}}}};
  codec.cells = {cell("", 0.25)};
  codec.looks_ahead = true;
  result.rows = {full, snap, codec};
  return result;
}

}  // namespace kvcost
