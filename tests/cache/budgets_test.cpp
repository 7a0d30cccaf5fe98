#include "src/cache/budgets.h"

#include <gtest/gtest.h>

#include <numeric>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

std::vector<int64_t> shared_out(const json& knobs, int layers) {
  Knobs read(knobs, "evict");
  return Budgets(read).of(layers);
}

std::string error_of(const json& evict) {
  try {
    make_policy(evict, "evict");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

CachedTokens decided(const json& evict, const CacheShape& shape, int layer, const LayerInput& layer_input) {
  RowCache cache({{"evict", evict}}, "row");
  cache.begin(shape);
  LayerInput input = layer_input;
  input.layer = layer;
  return cache(input);
}

}  // namespace

TEST(Budgets, APyramidByHand) {
  // The last layer a quarter of the mean, the first as much above it as the last is below.
  EXPECT_EQ(shared_out({{"capacity", 100}, {"budgets", "pyramid"}, {"beta", 4}}, 4),
            (std::vector<int64_t>{175, 125, 75, 25}));
  EXPECT_EQ(shared_out({{"capacity", 100}, {"budgets", "pyramid"}, {"beta", 4}, {"floor", 60}}, 3),
            (std::vector<int64_t>{130, 100, 70}));
  EXPECT_EQ(shared_out({{"capacity", 100}, {"budgets", "pyramid"}}, 1), (std::vector<int64_t>{100}));
  EXPECT_EQ(shared_out({{"capacity", 100}}, 3), (std::vector<int64_t>{100, 100, 100}));
}

TEST(Budgets, MeanIsTheCapacityExactly) {
  for (int64_t capacity : {20, 37, 256, 511, 100000}) {
    for (double beta : {1.0, 1.5, 3.0, 14.0, 20.0}) {
      for (int64_t floor : {0, 1, 8}) {
        if (double(capacity - floor) < beta) continue;
        for (int layers : {1, 2, 3, 7, 30, 80}) {
          const json knobs = {
              {"capacity", capacity}, {"budgets", "pyramid"}, {"beta", beta}, {"floor", floor}};
          const auto all = shared_out(knobs, layers);
          EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t{0}), layers * capacity) << knobs;
          EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend())) << knobs;
          Knobs read(knobs, "evict");
          const Budgets budgets(read);
          EXPECT_GE(all.back(), budgets.least()) << knobs;
          EXPECT_LE(all.front(), budgets.most()) << knobs;
        }
      }
    }
  }
}

TEST(Budgets, ALayerLivesAsWithItsShareAlone) {
  CacheShape shape = shape_of(4, 2, 8, 60, 40);
  shape.layers = 3;
  const LayerInput input = random_layer(shape, 25);
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      json evict = json::parse(knobs);
      if (!evict.contains("capacity")) continue;
      evict["policy"] = entry.name, evict["capacity"] = 20;
      json pyramid = evict;
      pyramid["budgets"] = "pyramid", pyramid["beta"] = 2, pyramid["floor"] = 10;
      for (auto [layer, tokens] : {std::pair(0, 25), {1, 20}, {2, 15}}) {
        evict["capacity"] = tokens;
        EXPECT_EQ(seen_by(decided(pyramid, shape, layer, input), shape),
                  seen_by(decided(evict, shape, layer, input), shape))
            << pyramid << " layer " << layer;
      }
    }
  }
}

TEST(Budgets, APassStartsBeforeTheSmallestShare) {
  CacheShape shape = shape_of(4, 2, 8, 60, 40);
  shape.layers = 3;
  RowCache cache(
      json::parse(R"({"evict": {"policy": "window", "capacity": 20, "budgets": "pyramid", "beta": 2}})"),
      "row");
  cache.begin(shape);
  EXPECT_EQ(cache.same_until(), 10);
  EXPECT_EQ(cache.policy()->capacity(), 20);
}

TEST(Budgets, RefuseWhatMakesNoSense) {
  EXPECT_EQ(error_of({{"policy", "window"}, {"capacity", 100}, {"beta", 4}})
                .rfind("evict.beta: unknown setting", 0),
            0u);
  EXPECT_EQ(error_of({{"policy", "window"}, {"capacity", 100}, {"budgets", "cone"}})
                .rfind("evict.budgets: unknown 'cone'", 0),
            0u);
  EXPECT_EQ(error_of({{"policy", "full"}, {"budgets", "pyramid"}}).rfind("evict.budgets: unknown setting", 0),
            0u);
  EXPECT_EQ(
      error_of({{"policy", "window"}, {"capacity", 10}, {"budgets", "pyramid"}}),
      "evict.beta: found nothing, expected at most 10 (20 if not given), or the last layer has no token");
  EXPECT_EQ(
      error_of({{"policy", "snapkv"}, {"capacity", 320}, {"budgets", "pyramid"}}),
      "evict (a layer of 16 tokens).observe: found nothing, expected an integer from 1 to 16 (32 if not "
      "given)");
  EXPECT_EQ(error_of({{"policy", "snapkv"}, {"capacity", 320}, {"budgets", "pyramid"}, {"floor", 32}}),
            "accepted");
}

}  // namespace kvcost
