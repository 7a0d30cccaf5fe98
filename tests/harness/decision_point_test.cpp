// Freezing a cache at a decision point: against the policy run on nothing but what came before it.
#include "src/harness/decision_point.h"

#include <gtest/gtest.h>

#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using namespace testing;
using nlohmann::json;

/// What each head still has once the prompt is over, by a run that ends with it.
std::vector<Tokens> left_after_prompt(const json& row, CacheShape shape, const LayerInput& input) {
  shape.tokens = shape.prompt;
  RowCache cache(row, "row");
  cache.begin(shape);
  const CachedTokens tokens = cache(prefix_of(input, shape.prompt));
  const bool bounded = cache.policy()->capacity() != kNever;
  std::vector<Tokens> left(shape.kv_heads);
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t j = 0; j < shape.prompt; ++j) {
      const int64_t gone = tokens.evicted_at.defined() ? tokens.evicted_at[h][j].item<int32_t>() : kNever;
      // Bounded: what the prompt's last query saw. Otherwise: what that query's decision left.
      if (bounded ? gone > shape.prompt - 1 : gone > shape.prompt) left[h].push_back(j);
    }
  }
  return left;
}

std::vector<json> evicting_rows() {
  std::vector<json> rows;
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      json evict = json::parse(knobs);
      evict["policy"] = entry.name;
      rows.push_back({{"evict", evict}});
      rows.push_back({{"evict", evict},
                      {"keys", {{"codec", "minmax"}, {"bits", 3}, {"axis", "token"}, {"group", 8}}},
                      {"exact_last", 4}});
      evict["positions"] = "cache";
      rows.push_back({{"evict", evict}});
      rows.push_back(
          {{"evict", evict},
           {"keys", {{"codec", "minmax"}, {"bits", 3}, {"axis", "token"}, {"group", 8}, {"rope", "before"}}},
           {"exact_last", 4}});
    }
  }
  return rows;
}

/// Renumbered, a frozen cache attends by itself, over what it kept.
void expect_attended(const CachedTokens& tokens, const CacheShape& shape, const LayerInput& input,
                     const std::string& what) {
  const Seen seen = seen_by(tokens, shape);
  for (int64_t i = 0; i < shape.tokens; i += 5) {
    for (int64_t h = 0; h < shape.query_heads; ++h) {
      const auto want =
          renumbered_attention(shape, input, tokens, h, i, seen[h / (shape.query_heads / shape.kv_heads)][i]);
      for (int64_t c = 0; c < shape.head_dim; ++c) {
        ASSERT_NEAR(tokens.attended[i][h][c].item<float>(), want[c], 1e-5) << what << ", query " << i;
      }
    }
  }
}

}  // namespace

TEST(DecisionPoint, EveryPolicyKeepsWhatItHadAndAllThatComes) {
  for (const json& row : evicting_rows()) {
    for (int64_t prompt : {1, 7, 11, 20, 36}) {
      CacheShape shape = small_shape();
      shape.prompt = prompt;
      const LayerInput input = random_layer(shape, 31);
      RowCache cache(row, "row"), plain(row, "row");
      if (cache.looks_ahead()) continue;
      DecidingCache deciding(cache, shape);
      const CachedTokens tokens = deciding(input);
      plain.begin(shape);
      const Seen got = seen_by(tokens, shape), unfrozen = seen_by(plain(input), shape);
      const std::vector<Tokens> left = left_after_prompt(row, shape, input);
      double kept = 0;
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        kept += double(left[h].size()) / double(shape.kv_heads);
        for (int64_t i = 0; i < shape.tokens; ++i) {
          Tokens want = unfrozen[h][i];
          if (i >= prompt) {
            want = left[h];
            for (int64_t j = prompt; j <= i; ++j) want.push_back(j);
          }
          ASSERT_EQ(got[h][i], want) << row << ", prompt of " << prompt << ", query " << i;
        }
        if (cache.policy()->capacity() != kNever) {
          EXPECT_LE(int64_t(left[h].size()), cache.policy()->capacity()) << row;
        }
      }
      EXPECT_NEAR(prompt_tokens_kept(deciding.frozen_lifetimes(), prompt), kept, 1e-12) << row;
      EXPECT_EQ(tokens.attended.defined(), cache.renumbered());
      if (cache.renumbered() && prompt == 20) expect_attended(tokens, shape, input, row.dump());
    }
  }
}

TEST(DecisionPoint, AllKeepTheirCapacityOfThePrompt) {
  for (const char* evict :
       {R"({"policy": "window", "capacity": 9})", R"({"policy": "h2o", "capacity": 9})",
        R"({"policy": "sinks", "capacity": 9})", R"({"policy": "tova", "capacity": 9})",
        R"({"policy": "random", "capacity": 9})", R"({"policy": "snapkv", "capacity": 9, "observe": 3})"}) {
    CacheShape shape = small_shape();
    shape.prompt = 20;
    RowCache cache({{"evict", json::parse(evict)}}, "row");
    DecidingCache deciding(cache, shape);
    deciding(random_layer(shape, 4));
    EXPECT_EQ(prompt_tokens_kept(deciding.frozen_lifetimes(), 20), 9) << evict;
  }
}

// The lifetimes on the way to a late decision hold those of every earlier one.
TEST(DecisionPoint, AnEarlierDecisionCanBeTakenFromALaterOne) {
  int compared = 0;
  for (const json& row : evicting_rows()) {
    CacheShape late = small_shape(), early = small_shape();
    late.prompt = 30, early.prompt = 13;
    const LayerInput input = random_layer(late, 32);
    RowCache cache(row, "row"), alone(row, "row");
    json codec = row;
    codec.erase("evict");
    RowCache rounding(codec, "row");
    if (!decides_on_the_way(cache)) continue;
    DecidingCache deciding(cache, late);
    deciding(input);
    DecidedCache decided(rounding, early, deciding.lifetimes(), last_eviction(*cache.policy(), early.prompt),
                         cache.renumbered());
    DecidingCache by_itself(alone, early);
    const CachedTokens a = decided(input), b = by_itself(input);
    EXPECT_EQ(seen_by(a, early), seen_by(b, early)) << row;
    EXPECT_EQ(a.k_rounded.defined(), b.k_rounded.defined());
    if (a.k_rounded.defined()) {
      EXPECT_TRUE(at::equal(a.k_rounded, b.k_rounded));
    }
    EXPECT_EQ(a.attended.defined(), cache.renumbered());
    if (cache.renumbered()) {
      EXPECT_TRUE(at::equal(a.attended, b.attended)) << row;
    }
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

TEST(DecisionPoint, WhatDecidesOnTheWay) {
  auto on_the_way = [](const char* row) { return decides_on_the_way(RowCache(json::parse(row), "row")); };
  EXPECT_TRUE(on_the_way(R"({"evict": {"policy": "h2o", "capacity": 8}})"));
  EXPECT_FALSE(on_the_way(R"({"evict": {"policy": "snapkv", "capacity": 40}})"));
  EXPECT_FALSE(on_the_way(R"({"keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": 8}})"));
  EXPECT_FALSE(on_the_way(R"({"evict": {"policy": "window", "capacity": 8},
                              "keys": {"codec": "minmax", "bits": 4, "axis": "channel", "group": 8}})"))
      << "a channel's scale looks ahead";
}

}  // namespace kvcost
