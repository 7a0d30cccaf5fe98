#pragma once
#include "src/harness/config/stream_result.h"

namespace kvcost {

/// 4,000 tokens in blocks of 1,000 through a model trained on 2,000: the full cache to 1,500, a window, and
/// sinks with both kinds of positions.
inline StreamResult sample_stream() {
  StreamResult result;
  result.name = "sample", result.config = {{"model", "m"}}, result.model = "m";
  result.program_version = "0.1.0", result.commit = "unknown", result.host = "h", result.processor = "p";
  result.dtype = "fp32", result.capabilities = {"AVX2"}, result.threads = 2;
  result.weights_sha256 = result.tokenizer_sha256 = result.text_sha256 = "0";
  result.documents = 1, result.tokens = 4000, result.trained_tokens = 2000, result.full_limit = 1500;
  result.block_tokens = 1000;
  auto row = [&](const std::string& name, int64_t tokens, double loss, double slope) {
    StreamRow made;
    made.name = name, made.config = nlohmann::json::object();
    made.tokens = tokens, made.chunk = 512, made.tokens_kept = 256;
    made.cache_bytes = 3 << 20, made.peak_bytes = int64_t{700} << 20, made.seconds = 40;
    for (int64_t first = 0; first < tokens; first += 1000) {
      made.block_loss_bits.push_back(loss);
      made.block_sd_bits.push_back(2);
      loss += slope;
    }
    if (tokens > result.trained_tokens) made.past_trained = StreamMean{loss, 0.0625};
    return made;
  };
  auto delta = [](double mean) { return StreamDelta{{mean, 0.03125}, mean - 0.25, mean + 0.25}; };
  StreamRow full = row("full cache", 1500, 4, -0.25);
  full.tokens_kept = 750;
  StreamRow window = row("window", 4000, 5, 1.5), kept = row("sinks, 4", 4000, 4.25, 0.125);
  window.section = kept.section = "original positions";
  window.config = {{"evict", {{"policy", "window"}, {"capacity", 256}}}};
  kept.config = {{"evict", {{"policy", "sinks"}, {"capacity", 256}}}};
  StreamRow renumbered = row("sinks, 4, renumbered", 4000, 4.25, 0);
  renumbered.section = "renumbered positions";
  renumbered.config = {{"evict", {{"policy", "sinks"}, {"capacity", 256}, {"positions", "cache"}}}};
  renumbered.renumbered = true;
  renumbered.renumbering_of = kept.name, renumbered.renumbering = delta(-0.375);
  window.against_full = delta(1.5), kept.against_full = delta(0.25), renumbered.against_full = delta(0.25);
  renumbered.against_full->low = renumbered.against_full->high = std::nullopt;
  result.rows = {full, window, kept, renumbered};
  return result;
}

}  // namespace kvcost
