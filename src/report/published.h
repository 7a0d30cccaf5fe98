#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/harness/config/result_file.h"
#include "src/report/key_statistics.h"
#include "src/report/table.h"

namespace kvcost {

struct PublishedRow {
  std::string section, name;
  double loss_bits = 0, delta_bits = 0, delta_se_bits = 0;
};

struct PublishedBudgetRow {
  std::string name;
  int64_t bytes_per_token = 0, kv_heads = 0;
  double sequence_gib = 0, percent_of_baseline = 0, bits_per_number = 0, share_of_tokens = 0;
};

/// Numbers an article printed, data/published/NAME.json. Only `losses` must be there.
struct Published {
  std::string source;
  std::string model;
  int64_t windows = 0, length = 0, scored = 0;
  double full_loss_bits = 0;
  std::vector<PublishedRow> rows;
  std::string key_model;
  int64_t key_channels = 0;
  std::vector<KeyStatistics> key_statistics;
  std::vector<PublishedBudgetRow> budget;
};

/// InputError naming the file and the JSON path.
Published read_published(const std::filesystem::path& path);

/// Published and measured side by side with their differences (measured - published); rows are matched by
/// name, spaces aside, and those without a partner are listed. Key statistics too where both have a layer's.
/// csv and json hold the same, unrounded.
std::string compare(const Published& published, const ResultFile& result, TableFormat format);

}  // namespace kvcost
