#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/cache/row_cache.h"

namespace kvcost {

/// The budget table of "KV Cache Compression: Eviction and Quantization", as its budget.py prints it.
std::string eviction_article_budget();

/// The worked numbers of "KV Cache Quantization: Bytes per Token and int8/int4 Trade-offs": bytes per token
/// and cache sizes of a 70B-class model, effective bits, and KV heads times bits.
std::string bytes_per_token_article_budget();

/// A model, as far as the size of its cache goes.
struct CacheModel {
  std::string name;
  int64_t layers = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<uint64_t> weight_bytes;  ///< at 16 bits a parameter
};

/// What is budgeted for.
struct BudgetRequest {
  int64_t context = 0;                   ///< tokens of each sequence
  int64_t batch = 1;                     ///< sequences
  std::optional<int64_t> block;          ///< tokens a block of a paged cache has room for
  std::optional<uint64_t> memory_bytes;  ///< for weights and caches
};

/// The cache of one sequence, paged: blocks hold keys or values of `block` consecutive slots, and each block
/// carries the scales of every group it has a part of. An evicted token's slot is used again.
struct PagedBytes {
  int64_t blocks = 0;         ///< one layer's, of keys and of values
  double block_bytes = 0;     ///< mean over blocks of keys and values, full
  double metadata_bytes = 0;  ///< scales and offsets in such a block, mean; NaN if the codec does not say
  double empty_bytes = 0;     ///< slots that no token is in, all layers
  double repeated_bytes = 0;  ///< scales held by more than one block, and room in blocks for more groups
  double total_bytes = 0;     ///< all layers
};

/// One row's cache for one sequence.
struct RowBudget {
  std::string name;
  double tokens_kept = 0;  ///< at the context's end, mean over layers and KV heads
  double bytes = 0;        ///< all layers
  double bits = 0;         ///< per stored number; 0 if none is stored
  std::optional<PagedBytes> paged;
};

/// Bytes that `row` (evict, keys, values, exact_last; what exact numbers take is kExactBits) holds after
/// `context` tokens. A policy that decides by content is taken to keep its newest `capacity` tokens.
/// InputError naming `path` if the row does not fit the model.
RowBudget row_budget(const CacheModel& model, const BudgetRequest& request, const nlohmann::json& row,
                     const std::string& name, const std::string& path);

/// The table for any model: first the cache at 16 bits with every token, then `rows`.
std::string budget_table(const CacheModel& model, const BudgetRequest& request,
                         const std::vector<RowBudget>& rows);

/// "24GiB", "24GB", "1.5 TiB", "4096MiB", "1000" (bytes). InputError naming `what`.
uint64_t parse_size(std::string_view text, const std::string& what);

/// The numbers of a model, checked: InputError naming `model.name` if a size is not positive or absurd.
void check_budget(const CacheModel& model, const BudgetRequest& request);

}  // namespace kvcost
