// What rows keep against sets made token by token, and attention against a dense softmax.
#include "src/harness/kept_measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"
#include "tests/support/random_weights.h"

namespace kvcost {
namespace {

using namespace testing;
using nlohmann::json;

struct Recorded {
  std::vector<Seen> seen;        ///< [layers]
  std::vector<at::Tensor> q, k;  ///< [layers]
};

/// A pass over the whole window from its first token on.
Recorded record(const ScoredWindow& window, const CacheFunction& cache) {
  Recorded recorded;
  Pass pass;
  pass.ids = window.ids, pass.wanted_from = 0, pass.wanted_to = window.length();
  pass.cache = [&](const LayerInput& input) {
    CachedTokens tokens = cache(input);
    recorded.seen.push_back(seen_by(tokens, window.shape()));
    recorded.q.push_back(input.q.clone()), recorded.k.push_back(input.k.clone());
    return tokens;
  };
  window.decoder.hidden(pass);
  return recorded;
}

CachedTokens full(const LayerInput& input) {
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  return cache;
}

/// Every policy as its examples have it, budgets by layer, positions by rank, and one that rounds too.
std::vector<json> rows() {
  std::vector<json> all;
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      json evict = json::parse(knobs);
      evict["policy"] = entry.name;
      all.push_back({{"evict", evict}});
    }
  }
  all.push_back({{"evict", {{"policy", "h2o"}, {"capacity", 9}, {"budgets", "pyramid"}, {"beta", 3}}}});
  all.push_back({{"evict", {{"policy", "window"}, {"capacity", 7}, {"budgets", "pyramid"}, {"beta", 2}}}});
  for (const char* policy : {"h2o", "sinks"}) {
    all.push_back({{"evict", {{"policy", policy}, {"capacity", 10}, {"positions", "cache"}}}});
  }
  all.push_back({{"evict", {{"policy", "keydiff"}, {"capacity", 8}}},
                 {"keys", {{"codec", "minmax"}, {"bits", 8}, {"axis", "token"}, {"group", 4}}},
                 {"exact_last", 3}});
  return all;
}

double jaccard(const Tokens& a, const Tokens& b) {
  Tokens both, either;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(either));
  return double(both.size()) / double(either.size());
}

/// [layers]
std::vector<double> overlap_by_hand(const ScoredWindow& window, const Recorded& a, const Recorded& b) {
  std::vector<double> layers;
  for (size_t l = 0; l < a.seen.size(); ++l) {
    double sum = 0, count = 0;
    for (size_t h = 0; h < a.seen[l].size(); ++h) {
      for (int64_t i = window.length() - window.scored - 1; i <= window.length() - 2; ++i) {
        sum += jaccard(a.seen[l][h][size_t(i)], b.seen[l][h][size_t(i)]);
        ++count;
      }
    }
    layers.push_back(sum / count);
  }
  return layers;
}

std::vector<double> attention_by_hand(const ScoredWindow& window, const Recorded& all, const Recorded& row) {
  const CacheShape shape = window.shape();
  std::vector<double> layers;
  for (size_t l = 0; l < row.seen.size(); ++l) {
    double sum = 0, count = 0;
    for (int64_t head = 0; head < shape.query_heads; ++head) {
      const int64_t h = head / (shape.query_heads / shape.kv_heads), d = shape.head_dim;
      for (int64_t i = window.length() - window.scored - 1; i <= window.length() - 2; ++i) {
        std::vector<const float*> keys;
        for (int64_t j = 0; j <= i; ++j) {
          keys.push_back(all.k[l].const_data_ptr<float>() + (j * shape.kv_heads + h) * d);
        }
        const std::vector<double> weights =
            dense_weights(all.q[l].const_data_ptr<float>() + (i * shape.query_heads + head) * d, keys, d);
        for (int64_t j : row.seen[l][size_t(h)][size_t(i)]) sum += weights[size_t(j)];
        ++count;
      }
    }
    layers.push_back(sum / count);
  }
  return layers;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double within,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t l = 0; l < got.size(); ++l) EXPECT_NEAR(got[l], want[l], within) << what << ", layer " << l;
}

class KeptMeasure : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

}  // namespace

// Windows of more than one tile of queries too, and one whose scored part begins at its second token.
INSTANTIATE_TEST_SUITE_P(Windows, KeptMeasure,
                         ::testing::Values(std::pair(52, 21), std::pair(131, 97), std::pair(41, 40)));

TEST_P(KeptMeasure, IsAsByHand) {
  std::vector<int32_t> ids;
  std::minstd_rand random(5);
  for (int64_t i = 0; i < GetParam().first; ++i) ids.push_back(static_cast<int32_t>(random() % 50));
  const Decoder decoder(RandomWeights(tiny_config("qwen2")), Dtype::fp32);
  const ScoredWindow window{decoder, ids, GetParam().second};

  const Recorded everything = record(window, full);
  const std::vector<LayerKv> kv = full_cache_kv(window);
  std::vector<RowLifetimes> lifetimes;
  std::vector<Recorded> by_hand;
  for (const json& row : rows()) {
    RowCache cache(row, "row"), again(row, "row");
    lifetimes.push_back(run_lifetimes(window, kv, cache));
    again.begin(window.shape());
    by_hand.push_back(record(window, again.function()));
    EXPECT_NEAR(lifetimes.back().tokens_kept, again.report().tokens_kept, 1e-12) << row;
  }
  const std::vector<std::vector<double>> attention = attention_kept(window, lifetimes);
  ASSERT_EQ(attention.size(), lifetimes.size());
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    const std::string name = rows()[a].dump();
    expect_near(attention[a], attention_by_hand(window, everything, by_hand[a]), 1e-5, name);
    for (size_t b = 0; b < lifetimes.size(); ++b) {
      expect_near(kept_overlap(window, lifetimes[a], lifetimes[b]),
                  overlap_by_hand(window, by_hand[a], by_hand[b]), 1e-12, name + " and " + rows()[b].dump());
    }
  }
}

TEST(KeptMeasure, TheFullCacheKeepsAllOfIt) {
  std::vector<int32_t> ids(30, 7);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % 11);
  const Decoder decoder(RandomWeights(tiny_config("llama")), Dtype::fp32);
  const ScoredWindow window{decoder, ids, 12};
  const std::vector<LayerKv> kv = full_cache_kv(window);
  std::vector<RowLifetimes> rows;
  for (int64_t capacity : {30, 100, 5}) {
    RowCache cache({{"evict", {{"policy", "h2o"}, {"capacity", capacity}}}}, "row");
    rows.push_back(run_lifetimes(window, kv, cache));
  }
  const auto attention = attention_kept(window, rows);
  for (size_t l = 0; l < attention[0].size(); ++l) {
    EXPECT_NEAR(attention[0][l], 1, 1e-6);
    EXPECT_NEAR(attention[1][l], 1, 1e-6);
    EXPECT_LT(attention[2][l], 0.9);
  }
  for (double overlap : kept_overlap(window, rows[0], rows[1])) EXPECT_EQ(overlap, 1);
  EXPECT_EQ(rows[0].ties.evictions, 0) << "what leaves after the last query is not counted";
  EXPECT_EQ(rows[2].ties.evictions, 3 * 2 * (30 - 5));
}

}  // namespace kvcost
