// A small made-up result for the report tests.
#pragma once
#include "src/harness/config/result_file.h"

namespace kvcost {

inline RowResult sample_row(const char* section, const char* name, double loss, double delta, double se) {
  RowResult row;
  row.section = section;
  row.name = name;
  row.config = {{"name", name}};
  row.loss_bits = loss;
  row.delta_bits = delta;
  row.delta_se_bits = se;
  row.delta_low_bits = delta - 0.05;
  row.delta_high_bits = delta + 0.05;
  row.kl_bits = 0.125;
  row.top1_agreement = 0.75;
  row.true_probability_change = -0.0625;
  row.tokens_kept = 512;
  row.stored_bytes_per_token = 5760;
  row.effective_bits = 4.5;
  row.seconds = 8.25;
  return row;
}

inline ResultFile sample_result() {
  ResultFile result;
  result.name = "sample";
  result.config = {{"model", "tiny"}};
  result.model = "tiny-1m";
  result.program_version = "0.1.0";
  result.commit = "abc";
  result.host = "here";
  result.processor = "a processor";
  result.capability = "AVX2";
  result.dtype = "fp32";
  result.threads = 2;
  result.weights_sha256 = "11";
  result.tokenizer_sha256 = "22";
  result.text_sha256 = "33";
  result.windows = 8;
  result.length = 2048;
  result.scored = 1024;
  result.capabilities = {"AVX2"};
  RowResult full = sample_row("", "full cache", 3.063, 0, 0);
  full.delta_low_bits = full.delta_high_bits = 0;
  full.no_effect = true;
  full.stored_bytes_per_token = 23040;
  full.effective_bits = 16;
  const char* kept = "eviction: keep";
  const char* rounded = "quantization of the cache (keys after RoPE):";
  result.rows = {full, sample_row(kept, "the last 512 tokens", 4.957, 1.894, 0.031),
                 sample_row(kept, "4 sink tokens + the last 508", 3.235, 0.172, 0.011),
                 sample_row(rounded, "2-bit, per token", 11.506, 8.443, 0.059),
                 sample_row(rounded, "2-bit, keys per channel, last 128 exact (KIVI)", 3.388, 0.325, 0.013)};
  return result;
}

}  // namespace kvcost
