#pragma once
#include "src/harness/config/kept_result.h"

namespace kvcost {

/// Three rows, two layers.
inline KeptResult sample_kept() {
  KeptResult result;
  result.name = "eviction", result.config = {{"model", "m"}}, result.model = "m";
  result.program_version = "0.1.0", result.commit = "unknown", result.host = "h", result.processor = "p";
  result.capabilities = {"AVX2"}, result.dtype = "fp32", result.threads = 2;
  result.weights_sha256 = result.tokenizer_sha256 = result.text_sha256 = "0";
  result.windows = 1, result.length = 2048, result.scored = 1024, result.layers = 2;
  KeptRow window, h2o, oracle;
  window.name = "window, 128", window.section = "position", window.tokens_kept = 128;
  window.config = {{"evict", {{"policy", "window"}, {"capacity", 128}}}};
  window.attention = {0.375, {0.5, 0.25}};
  h2o.name = "h2o, 128", h2o.section = "content", h2o.tokens_kept = 128;
  h2o.config = {{"evict", {{"policy", "h2o"}, {"capacity", 128}}}};
  h2o.attention = {0.75, {0.75, 0.75}}, h2o.evictions = 4000, h2o.ties = 1;
  oracle.name = "oracle, 128", oracle.section = "references", oracle.tokens_kept = 127.5;
  oracle.config = {{"evict", {{"policy", "oracle"}, {"capacity", 128}}}};
  oracle.attention = {1, {1, 1}}, oracle.evictions = 4000, oracle.ties = 0, oracle.looks_ahead = true;
  result.rows = {window, h2o, oracle};
  result.pairs = {{0, 1, {0.5, {0.25, 0.75}}}, {0, 2, {0.25, {0.125, 0.375}}}, {1, 2, {0.75, {0.5, 1}}}};
  return result;
}

}  // namespace kvcost
