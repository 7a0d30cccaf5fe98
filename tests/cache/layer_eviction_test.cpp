#include "src/cache/layer_eviction.h"

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {

// When full and after every seventh query from then on: keeps the tokens with the largest first value.
// Registered, so that the contract test runs over it too.
class TestingInterval : public IntervalPolicy {
 public:
  explicit TestingInterval(Knobs& knobs) : capacity_(knobs.integer("capacity", 8, kNever)) {}
  static Description describe() {
    return {"for tests: now and then keeps the largest first values", "-", {}, {R"({"capacity": 12})"}};
  }
  int64_t capacity() const override { return capacity_; }
  int64_t same_until(const CacheShape& shape) const override { return std::min(capacity_ - 1, shape.tokens); }
  int64_t next_decision(const CacheShape&, int64_t query) const override {
    int64_t next = capacity_ - 1;
    while (next < query) next += 7;
    return next;
  }
  void decide(const CacheShape& shape, const LayerSoFar& layer, std::span<uint8_t> kept) const override {
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      std::vector<double> scores;
      for (int64_t j = 0; j < layer.tokens; ++j) scores.push_back(layer.cache.v[j][h][0].item<float>());
      scores.back() = INFINITY;
      drop_smallest(scores, 7, kept.subspan(h * layer.tokens, layer.tokens));
    }
  }

 private:
  int64_t capacity_;
};
KVCOST_POLICY("testing-interval", TestingInterval);

namespace {

using nlohmann::json;
using namespace testing;

/// Tries to bring back what is gone.
class Reviving : public IntervalPolicy {
 public:
  int64_t capacity() const override { return kNever; }
  int64_t same_until(const CacheShape&) const override { return 0; }
  int64_t next_decision(const CacheShape&, int64_t query) const override { return query; }
  void decide(const CacheShape&, const LayerSoFar& layer, std::span<uint8_t> kept) const override {
    std::fill(kept.begin(), kept.end(), uint8_t{1});
    kept[static_cast<size_t>(layer.tokens) - 1] = layer.tokens % 2;
  }
};

struct DecisionCount : IntervalState {
  int64_t decisions = 0;
};

/// After every query; expects its state to know of all decisions before.
class Carrying : public IntervalPolicy {
 public:
  int64_t capacity() const override { return kNever; }
  int64_t same_until(const CacheShape&) const override { return 0; }
  int64_t next_decision(const CacheShape&, int64_t query) const override { return query; }
  std::unique_ptr<IntervalState> begin(const CacheShape&) const override {
    return std::make_unique<DecisionCount>();
  }
  void decide(const CacheShape&, const LayerSoFar& layer, std::span<uint8_t> kept) const override {
    auto& state = dynamic_cast<DecisionCount&>(*layer.state);
    EXPECT_EQ(state.decisions++, layer.tokens - 1);
    kept[0] = 0;
  }
};

}  // namespace

TEST(LayerEviction, BeginsAStateForEachLayer) {
  const CacheShape shape = small_shape();
  const LayerInput input = random_layer(shape, 8);
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  for (int layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(layer_lifetimes(Carrying(), shape, input, cache)[0][0].item<int32_t>(), 1);
  }
}

TEST(LayerEviction, DecidesNowAndThen) {
  const json evict = {{"policy", "testing-interval"}, {"capacity", 12}};
  expect_lives_like(evict, [](const PlainLayer& layer) {
    const LayerInput input = random_layer(layer.shape(), 21);
    return live(layer.shape(), 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
      if (kept.size() < 12) return {};
      Tokens order(kept.begin(), kept.end() - 1);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return input.v[a][h][0].item<float>() < input.v[b][h][0].item<float>();
      });
      EXPECT_EQ(kept.back(), i);
      return {order.begin(), order.begin() + 7};
    });
  });
}

TEST(LayerEviction, WhatIsGoneStaysGone) {
  const CacheShape shape = shape_of(2, 1, 4, 9, 5);
  const LayerInput input = random_layer(shape, 42);
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  const at::Tensor gone = layer_lifetimes(Reviving(), shape, input, cache);
  for (int64_t j = 0; j < 9; ++j) {
    EXPECT_EQ(gone[0][j].item<int32_t>(), (j + 1) % 2 == 0 ? int32_t(j + 1) : kNever) << j;
  }
}

TEST(LayerEviction, RefusesAPassThatStartsTooLate) {
  const CacheShape shape = small_shape();
  LayerInput input = random_layer(shape, 43);
  input.first_query = 8, input.q = input.q.narrow(0, 8, shape.tokens - 8).contiguous();
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  for (const char* knobs : {R"({"policy": "oracle", "capacity": 7})", R"({"policy": "h2o", "capacity": 20})",
                            R"({"policy": "expected", "capacity": 20})",
                            R"({"policy": "snapkv", "capacity": 6, "observe": 4})"}) {
    const auto policy = make_policy(json::parse(knobs), "evict");
    EXPECT_THROW(layer_lifetimes(*policy, shape, input, cache), Failure) << knobs;
  }
  const auto by_keys = make_policy(json::parse(R"({"policy": "keynorm", "capacity": 5})"), "evict");
  EXPECT_FALSE(needs_queries(*by_keys));
  const at::Tensor all = layer_lifetimes(*by_keys, shape, input, cache);
  input.q = input.q.narrow(0, 3, 4).contiguous(), input.first_query = 11;
  EXPECT_TRUE(at::equal(all, layer_lifetimes(*by_keys, shape, input, cache))) << "needs no queries at all";
}

TEST(LayerEviction, PoliciesKnowHowMuchTheyHold) {
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      for (const CacheShape& shape : several_shapes()) {
        json evict = json::parse(knobs);
        evict["policy"] = entry.name;
        RowCache row({{"evict", evict}}, "row");
        row.begin(shape);
        const CachedTokens cache = row(random_layer(shape, 44));
        int64_t held = shape.kv_heads * shape.tokens;
        if (cache.evicted_at.defined()) held = (cache.evicted_at >= shape.tokens).sum().item<int64_t>();
        if (entry.name == "testing-interval") continue;
        EXPECT_EQ(held, shape.kv_heads * row.policy()->tokens_held(shape)) << evict << shape.tokens;
      }
    }
  }
}

}  // namespace kvcost
