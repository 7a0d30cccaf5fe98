#include <gtest/gtest.h>

#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

/// The second of two layers' lifetimes (or the first's).
Seen seen_of(const json& knobs, CacheShape shape, int layer = 1) {
  json evict = knobs;
  evict["policy"] = "random";
  shape.layers = 2;
  LayerInput input = random_layer(shape, 24);
  input.layer = layer;
  RowCache policy({{"evict", evict}}, "row");
  policy.begin(shape);
  return seen_by(policy(input), shape);
}

/// How often the eviction after each full query took the candidate of each rank, the oldest being 0.
std::vector<int> ranks_of(const std::vector<Tokens>& seen, int64_t capacity, int64_t recent, int64_t sinks) {
  std::vector<int> count(static_cast<size_t>(capacity - sinks - recent), 0);
  for (size_t i = static_cast<size_t>(capacity) - 1; i + 1 < seen.size(); ++i) {
    const Tokens& before = seen[i];
    int64_t rank = 0;
    while (rank + 1 < capacity && before[rank] == seen[i + 1][rank]) ++rank;
    count.at(static_cast<size_t>(rank - sinks))++;
  }
  return count;
}

}  // namespace

TEST(Random, KeepsExactlyItsCapacityAndWhatIsSafe) {
  for (const CacheShape& shape : several_shapes()) {
    for (int64_t capacity : {1, 2, 8, 70, 200}) {
      const int64_t recent = capacity / 2, sinks = capacity >= 8 ? 2 : 0;
      const Seen seen = seen_of({{"capacity", capacity}, {"recent", recent}, {"sinks", sinks}}, shape);
      for (const auto& head : seen) {
        for (int64_t i = 0; i < shape.tokens; ++i) {
          ASSERT_EQ(int64_t(head[i].size()), std::min(i + 1, capacity));
          for (int64_t j = 0; j < std::min(sinks, i + 1); ++j) EXPECT_EQ(head[i][j], j);
          // The `recent` newest of the query before, and this one's own token.
          for (int64_t n = 0; n <= std::min(recent, i); ++n)
            EXPECT_EQ(head[i][head[i].size() - 1 - n], i - n);
        }
      }
    }
  }
}

TEST(Random, DrawsBySeedLayerAndHead) {
  const CacheShape shape = shape_of(4, 2, 8, 60, 30);
  const Seen first = seen_of({{"capacity", 9}}, shape);
  EXPECT_EQ(first, seen_of({{"capacity", 9}, {"seed", 0}}, shape));
  EXPECT_NE(first, seen_of({{"capacity", 9}, {"seed", 1}}, shape));
  EXPECT_NE(first, seen_of({{"capacity", 9}}, shape, 0));
  EXPECT_NE(first[0], first[1]);
}

// Pearson's test: 8 and 5 candidates, the 0.1% points of 7 and 4 degrees of freedom.
TEST(Random, TakesEveryCandidateAlike) {
  const CacheShape shape = shape_of(2, 2, 2, 1500, 700);
  for (auto [recent, sinks, most] : {std::tuple(1, 0, 24.3), {2, 2, 18.5}}) {
    const Seen seen = seen_of({{"capacity", 9}, {"recent", recent}, {"sinks", sinks}, {"seed", 3}}, shape);
    for (const auto& head : seen) {
      const std::vector<int> count = ranks_of(head, 9, recent, sinks);
      const double mean = 1491.0 / double(count.size());
      double chi = 0;
      for (int n : count) chi += (n - mean) * (n - mean) / mean;
      EXPECT_LT(chi, most);
      EXPECT_GT(chi, 0.3) << "too even to be drawn";
    }
  }
}

}  // namespace kvcost
