#include <gtest/gtest.h>

#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

Seen plain_oracle(const PlainLayer& layer, int64_t capacity) {
  const int64_t T = layer.shape().tokens;
  Seen seen(layer.shape().kv_heads);
  for (int64_t h = 0; h < layer.shape().kv_heads; ++h) {
    // later[i][j]: what queries after i give to j, with nothing evicted.
    std::vector<std::vector<double>> later(size_t(T), std::vector<double>(size_t(T), 0.0));
    for (int64_t i = T - 1; i > 0; --i) {
      Tokens all;
      for (int64_t j = 0; j <= i; ++j) all.push_back(j);
      const std::vector<double> mean = layer.mean_weights(h, 1, i, all);
      later[i - 1] = later[i];
      for (int64_t j = 0; j <= i; ++j) later[i - 1][j] += mean[j];
    }
    Tokens kept;
    for (int64_t i = 0; i < T; ++i) {
      kept.push_back(i);
      seen[h].push_back(kept);
      if (int64_t(kept.size()) < capacity) continue;
      kept.erase(std::min_element(kept.begin(), kept.end(),
                                  [&](int64_t a, int64_t b) { return later[i][a] < later[i][b]; }));
    }
  }
  return seen;
}

}  // namespace

TEST(Oracle, LivesAsByHand) {
  for (int64_t capacity : {1, 2, 3, 7, 70, 200}) {
    expect_lives_like({{"policy", "oracle"}, {"capacity", capacity}},
                      [&](const PlainLayer& layer) { return plain_oracle(layer, capacity); });
  }
}

// More queries than one block of its sums holds, and not a whole number of blocks.
TEST(Oracle, LivesOnBeyondABlock) {
  const CacheShape shape = shape_of(2, 1, 8, 211, 100);
  const LayerInput input = random_layer(shape, 26);
  RowCache cache({{"evict", {{"policy", "oracle"}, {"capacity", 9}}}}, "row");
  cache.begin(shape);
  EXPECT_TRUE(cache.looks_ahead());
  const CachedTokens tokens = cache(input);
  EXPECT_EQ(seen_by(tokens, shape), plain_oracle(PlainLayer(shape, input, tokens), 9));
}

// No query looks at anything but the first token and itself: the newest goes again at once, unless it is the
// first.
TEST(Oracle, MayGiveUpTheNewest) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 10);
  LayerInput input = random_layer(shape, 27);
  input.q.zero_(), input.k.zero_();
  input.q.select(2, 0).fill_(100);
  input.k.select(2, 0).fill_(-100);
  input.k[0].select(1, 0).fill_(100);
  input.k[3].select(1, 0).fill_(99.9);
  RowCache cache({{"evict", {{"policy", "oracle"}, {"capacity", 2}}}}, "row");
  cache.begin(shape);
  const Seen seen = seen_by(cache(input), shape);
  for (int64_t i = 1; i < 30; ++i) EXPECT_EQ(seen[1][i], (Tokens{0, i}));
}

TEST(Oracle, TiesGoToTheOldest) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 10);
  LayerInput input = random_layer(shape, 28);
  input.q.zero_();
  RowCache cache({{"evict", {{"policy", "oracle"}, {"capacity", 4}}}}, "row");
  cache.begin(shape);
  const Seen seen = seen_by(cache(input), shape);
  for (int64_t i = 4; i < 30; ++i) EXPECT_EQ(seen[0][i], (Tokens{i - 3, i - 2, i - 1, i}));
}

}  // namespace kvcost
