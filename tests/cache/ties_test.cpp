#include <gtest/gtest.h>

#include "src/cache/layer_eviction.h"
#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

/// Of each KV head.
std::vector<TieCount> ties_of(const json& evict, const CacheShape& shape, const LayerInput& input) {
  const auto policy = make_policy(evict, "evict");
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  std::vector<TieCount> ties(static_cast<size_t>(shape.kv_heads));
  layer_lifetimes(*policy, shape, input, cache, ties.data());
  return ties;
}

/// Every key the same, so that no score tells one token from another.
LayerInput one_key_for_all(const CacheShape& shape) {
  LayerInput input = random_layer(shape, 3);
  input.k.copy_(input.k[0].unsqueeze(0).expand_as(input.k).clone());
  return input;
}

}  // namespace

TEST(Ties, AreCountedWhereAgeDecides) {
  const CacheShape shape = shape_of(6, 2, 16, 37, 20);
  const LayerInput input = one_key_for_all(shape);
  struct Case {
    json evict;
    int64_t evictions, tied;  ///< of the first KV head; the second is like it or, where heads share, 0
    bool shared = false;
  };
  const std::vector<Case> cases = {
      // One leaves before each of the queries 6 to 36; what leaves after the last one is not counted.
      {{{"policy", "tova"}, {"capacity", 6}}, 31, 31, true},
      {{{"policy", "keynorm"}, {"capacity", 6}}, 31, 31},
      {{{"policy", "keynorm"}, {"capacity", 6}, {"recent", 3}, {"sinks", 2}}, 31, 0},  // one may go
      {{{"policy", "random"}, {"capacity", 6}}, 31, 0},
      {{{"policy", "oracle"}, {"capacity", 6}}, 31, 31},
      {{{"policy", "oracle"}, {"capacity", 1}}, 36, 0},
      // The first and the last pooled token stand beside zeros, and leave first; then 6 of equals.
      {{{"policy", "snapkv"}, {"capacity", 12}, {"observe", 4}, {"kernel", 3}}, 8, 6},
      {{{"policy", "snapkv"}, {"capacity", 12}, {"observe", 4}, {"kernel", 1}}, 8, 8},
      {{{"policy", "adakv"}, {"capacity", 12}, {"observe", 4}, {"alpha", 1}}, 8, 8},
      {{{"policy", "snapkv"}, {"capacity", 4}, {"observe", 4}, {"kernel", 1}}, 16, 0},  // none stays
      {{{"policy", "tova"}, {"capacity", 37}}, 0, 0}};
  for (const Case& one : cases) {
    const std::vector<TieCount> ties = ties_of(one.evict, shape, input);
    EXPECT_EQ(ties[0].evictions, one.evictions) << one.evict;
    EXPECT_EQ(ties[0].tied, one.tied) << one.evict;
    EXPECT_EQ(ties[1].evictions, one.shared ? 0 : one.evictions) << one.evict;
    EXPECT_EQ(ties[1].tied, one.shared ? 0 : one.tied) << one.evict;
  }
}

// Small whole numbers: many keys are equally long, and their lengths are exact.
TEST(Ties, OfKeyNormsAsByHand) {
  const CacheShape shape = shape_of(4, 2, 4, 61, 30);
  int64_t ties = 0;
  for (const auto& [capacity, recent, sinks] :
       {std::tuple(7, 0, 0), std::tuple(12, 4, 2), std::tuple(3, 0, 1), std::tuple(30, 1, 0)}) {
    LayerInput input = random_layer(shape, 19);
    input.k.round_();
    std::vector<TieCount> want(2);
    live(shape, 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
      if (int64_t(kept.size()) < capacity) return {};
      std::vector<double> lengths;
      for (int64_t j : kept) lengths.push_back(input.k[j][h].square().sum().item<double>());
      const Tokens gone = worst(kept, lengths, recent, sinks);
      int64_t equal = 0;
      for (size_t s = size_t(sinks); s + size_t(std::max(1, recent)) < kept.size(); ++s) {
        equal += lengths[s] == input.k[gone[0]][h].square().sum().item<double>();
      }
      if (i + 1 < shape.tokens) ++want[size_t(h)].evictions, want[size_t(h)].tied += equal > 1;
      return gone;
    });
    const json evict = {{"policy", "keynorm"}, {"capacity", capacity}, {"recent", recent}, {"sinks", sinks}};
    const std::vector<TieCount> got = ties_of(evict, shape, input);
    for (size_t h = 0; h < 2; ++h) {
      EXPECT_EQ(got[h].evictions, want[h].evictions) << evict;
      EXPECT_EQ(got[h].tied, want[h].tied) << evict;
      ties += got[h].tied;
      EXPECT_LT(got[h].tied, got[h].evictions) << evict;
    }
  }
  EXPECT_GT(ties, 10);
}

// By windows, and added up by a row's cache; a policy by position has no scores.
TEST(Ties, OfARow) {
  CacheShape shape = shape_of(6, 2, 16, 37, 20);
  shape.layers = 2;
  LayerInput input = one_key_for_all(shape);
  RowCache tova({{"evict", {{"policy", "tova"}, {"capacity", 6}}}}, "row"),
      window({{"evict", {{"policy", "window"}, {"capacity", 6}}}}, "row");
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (RowCache* row : {&tova, &window}) {
      row->begin(shape);
      for (input.layer = 0; input.layer < 2; ++input.layer) (*row)(input);
    }
    EXPECT_EQ(tova.ties().evictions, 62);
    EXPECT_EQ(tova.ties().tied, 62);
    EXPECT_EQ(window.ties().evictions, 0);
  }
}

}  // namespace kvcost
