#include "src/harness/kept_measure.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "src/cache/weights.h"
#include "src/harness/cache_shape.h"
#include "src/model/simd.h"

namespace kvcost {
namespace {

constexpr int64_t kTile = 64;  ///< queries whose weights are held at once

/// Sum of weights[j], j <= i, of the tokens that query i sees.
KVCOST_MULTIARCH double seen_weight(const float* weights, const int32_t* evicted_at, int64_t i) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j <= i; ++j) sum += evicted_at[j] > i ? static_cast<double>(weights[j]) : 0.0;
  return sum;
}

/// [scored]: how many tokens each scored query sees, if they leave when `until`(j) says.
template <class Until>
std::vector<int64_t> sizes(const ScoredWindow& window, const Until& until) {
  const int64_t first = window.first_query(), end = first + window.scored;
  std::vector<int64_t> change(static_cast<size_t>(window.scored + 1), 0);
  for (int64_t j = 0; j < end; ++j) {
    const int64_t from = std::max(j, first), to = std::min<int64_t>(until(j), end);
    if (from >= to) continue;
    ++change[from - first], --change[to - first];
  }
  for (int64_t i = 1; i < window.scored; ++i) change[i] += change[i - 1];
  change.pop_back();
  return change;
}

Pass scored_pass(const ScoredWindow& window) {
  Pass pass;
  pass.ids = window.ids;
  pass.wanted_from = window.first_query();
  pass.wanted_to = window.length() - 1;
  return pass;
}

/// Adds one layer's to mass[row], sums over query heads and scored queries.
void add_attention(const ScoredWindow& window, const LayerInput& input, std::span<const RowLifetimes> rows,
                   std::vector<double>& mass) {
  const CacheShape shape = window.shape();
  LayerSoFar layer;
  layer.tokens = shape.tokens, layer.first_query = input.first_query, layer.q = input.q;
  layer.cache.k = input.k;
  const int64_t group = shape.query_heads / shape.kv_heads, first = window.first_query();
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<double> by_head(static_cast<size_t>(shape.query_heads * count), 0.0);
  at::parallel_for(0, shape.query_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      for (int64_t tile = first; tile < first + window.scored; tile += kTile) {
        const int64_t queries = std::min(kTile, first + window.scored - tile);
        const at::Tensor weights = full_weights(shape, layer, head, tile, queries);
        for (int64_t r = 0; r < count; ++r) {
          const at::Tensor& lifetimes = rows[r].evicted_at[input.layer];
          if (!lifetimes.defined()) {
            by_head[head * count + r] += static_cast<double>(queries);
            continue;
          }
          const int32_t* gone = lifetimes.const_data_ptr<int32_t>() + head / group * shape.tokens;
          for (int64_t i = 0; i < queries; ++i) {
            const float* row = weights.const_data_ptr<float>() + i * weights.size(1);
            by_head[head * count + r] += seen_weight(row, gone, tile + i);
          }
        }
      }
    }
  });
  for (size_t n = 0; n < by_head.size(); ++n) mass[n % rows.size()] += by_head[n];
}

}  // namespace

CacheShape ScoredWindow::shape() const { return cache_shape(decoder.config(), length(), length() - scored); }

std::vector<LayerKv> full_cache_kv(const ScoredWindow& window) {
  std::vector<LayerKv> kv;
  Pass pass = scored_pass(window);
  pass.keep = &kv;
  window.decoder.hidden(pass);
  return kv;
}

RowLifetimes run_lifetimes(const ScoredWindow& window, const std::vector<LayerKv>& full, RowCache& cache) {
  cache.begin(window.shape());
  RowLifetimes row;
  row.evicted_at.resize(full.size());
  Pass pass = scored_pass(window);
  pass.start = std::min(cache.same_until(), window.length() - 1);
  pass.prefix = &full;
  // Only what is decided is wanted, but a policy that reads queries must see them all, in the last layer too.
  pass.wanted_from = cache.needs_all_queries() ? pass.start : window.length() - 1;
  pass.wanted_to = window.length();
  pass.cache = [&](const LayerInput& input) {
    CachedTokens tokens = cache(input);
    row.evicted_at[input.layer] = tokens.evicted_at;
    return tokens;
  };
  window.decoder.hidden(pass);
  row.ties = cache.ties();
  row.tokens_kept = cache.report().tokens_kept;
  return row;
}

std::vector<double> kept_overlap(const ScoredWindow& window, const RowLifetimes& a, const RowLifetimes& b) {
  const CacheShape shape = window.shape();
  std::vector<double> overlap;
  for (size_t layer = 0; layer < a.evicted_at.size(); ++layer) {
    double sum = 0;
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      auto until = [&](const RowLifetimes& row) {
        const at::Tensor& lifetimes = row.evicted_at[layer];
        const int32_t* gone =
            lifetimes.defined() ? lifetimes.const_data_ptr<int32_t>() + h * shape.tokens : nullptr;
        return [gone](int64_t j) { return gone == nullptr ? kNever : gone[j]; };
      };
      const auto until_a = until(a), until_b = until(b);
      const std::vector<int64_t> either = sizes(window,
                                                [&](int64_t j) { return std::max(until_a(j), until_b(j)); }),
                                 both = sizes(window,
                                              [&](int64_t j) { return std::min(until_a(j), until_b(j)); });
      for (size_t i = 0; i < both.size(); ++i)
        sum += static_cast<double>(both[i]) / static_cast<double>(either[i]);
    }
    overlap.push_back(sum / static_cast<double>(shape.kv_heads * window.scored));
  }
  return overlap;
}

std::vector<std::vector<double>> attention_kept(const ScoredWindow& window,
                                                std::span<const RowLifetimes> rows) {
  const CacheShape shape = window.shape();
  std::vector<std::vector<double>> kept(rows.size());
  Pass pass = scored_pass(window);
  pass.cache = [&](const LayerInput& input) {
    std::vector<double> mass(rows.size(), 0.0);
    add_attention(window, input, rows, mass);
    for (size_t r = 0; r < rows.size(); ++r) {
      kept[r].push_back(mass[r] / static_cast<double>(shape.query_heads * window.scored));
    }
    CachedTokens cache;
    cache.k = input.k, cache.v = input.v;
    return cache;
  };
  window.decoder.hidden(pass);
  return kept;
}

}  // namespace kvcost
