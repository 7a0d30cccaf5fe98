#include "src/cache/scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "src/cache/row_cache.h"
#include "tests/support/dense_attention.h"
#include "tests/support/layers.h"

namespace kvcost {

// Two policies of the literature's shape. Registered, so that the contract test runs over them too.
class TestingHitters : public ContentPolicy {
 public:
  explicit TestingHitters(Knobs& knobs) : ContentPolicy(knobs, Recent::half) {}
  static Description describe() {
    return {"for tests: keeps what has drawn the most attention",
            "-",
            {},
            {R"({"capacity": 8})", R"({"capacity": 5, "recent": 0, "sinks": 2})", R"({"capacity": 1})"}};
  }
  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    add_mean_weights(view, memory);
  }
};
KVCOST_POLICY("testing-hitters", TestingHitters);

class TestingNewestWeight : public ContentPolicy {
 public:
  explicit TestingNewestWeight(Knobs& knobs) : ContentPolicy(knobs) {}
  static Description describe() {
    return {"for tests: gives up what the newest query weighs least", "-", {}, {R"({"capacity": 7})"}};
  }
  int64_t same_until(const CacheShape& shape) const override {
    return std::min(capacity() - 1, shape.tokens);
  }
  bool one_set_per_layer() const override { return true; }
  void observe(const CacheShape&, const CacheView& view, std::span<double> memory) const override {
    std::fill(memory.begin(), memory.end(), 0.0);
    add_mean_weights(view, memory);
  }
};
KVCOST_POLICY("testing-newest-weight", TestingNewestWeight);

namespace {

using testing::dense_weights;
using testing::random_layer;
using testing::small_shape;

class Stubborn : public TestingHitters {
 public:
  using TestingHitters::TestingHitters;
  int64_t evict(const CacheShape&, const CacheView&, std::span<const double>) const override { return -1; }
};

template <class Policy>
Policy policy_of(const char* knobs) {
  nlohmann::json object = nlohmann::json::parse(knobs);
  Knobs read(object, "evict");
  return Policy(read);
}

CachedTokens cache_of(const LayerInput& input) {
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  return cache;
}

/// A real cache's life in double: `shared` one set for all heads; score by sum or by newest weight.
std::vector<std::vector<int32_t>> simulate(const CacheShape& shape, const LayerInput& input,
                                           const CachedTokens& cache, int64_t capacity, int64_t recent,
                                           int64_t sinks, bool shared, bool sum) {
  const int64_t group = shape.query_heads / shape.kv_heads, d = shape.head_dim;
  std::vector<std::vector<int32_t>> gone(shape.kv_heads, std::vector<int32_t>(shape.tokens, kNever));
  for (int64_t set = 0; set < (shared ? 1 : shape.kv_heads); ++set) {
    const int64_t first = shared ? 0 : set, last = shared ? shape.kv_heads : set + 1;
    std::vector<std::pair<int64_t, double>> held;  // token, score; oldest first
    for (int64_t i = 0; i < shape.tokens; ++i) {
      held.push_back({i, 0});
      std::vector<double> mean(held.size(), 0.0);
      for (int64_t h = first; h < last; ++h) {
        std::vector<const float*> keys;
        for (auto [j, score] : held) {
          const bool rounded = cache.k_rounded.defined() && i >= cache.k_rounded_at[h][j].item<int32_t>();
          keys.push_back((rounded ? cache.k_rounded : cache.k).const_data_ptr<float>() +
                         (j * shape.kv_heads + h) * d);
        }
        for (int64_t g = 0; g < group; ++g) {
          auto w = dense_weights(
              input.q.const_data_ptr<float>() + (i * shape.query_heads + h * group + g) * d, keys, d);
          for (size_t s = 0; s < held.size(); ++s) mean[s] += w[s] / double(group * (last - first));
        }
      }
      for (size_t s = 0; s < held.size(); ++s) held[s].second = mean[s] + (sum ? held[s].second : 0.0);
      if (int64_t(held.size()) < capacity) continue;
      size_t worst = held.size();
      for (size_t s = 0; s < held.size(); ++s) {
        const int64_t j = held[s].first;
        if (held.size() > 1 && (j < sinks || j > i - std::max<int64_t>(1, recent))) continue;
        if (worst == held.size() || held[s].second < held[worst].second) worst = s;
      }
      for (int64_t h = first; h < last; ++h) gone[h][held[worst].first] = int32_t(i + 1);
      held.erase(held.begin() + int64_t(worst));
    }
  }
  return gone;
}

void expect_equal(const at::Tensor& evicted_at, const std::vector<std::vector<int32_t>>& want,
                  const char* what) {
  for (size_t h = 0; h < want.size(); ++h) {
    for (size_t j = 0; j < want[h].size(); ++j) {
      ASSERT_EQ(evicted_at[int64_t(h)][int64_t(j)].item<int32_t>(), want[h][j])
          << what << " head " << h << " token " << j;
    }
  }
}

}  // namespace

TEST(Scan, LivesAsARealCacheWould) {
  const CacheShape shape = small_shape(83);
  for (bool rounded : {false, true}) {
    const LayerInput input = random_layer(shape, 11);
    CachedTokens cache = cache_of(input);
    if (rounded) {
      cache.k_rounded = (input.k * 2).round() / 2;
      // Ages of rounding that differ from head to head.
      cache.k_rounded_at =
          (at::arange(83, at::kInt).unsqueeze(0) + at::tensor({5, 11}, at::kInt).unsqueeze(1)).contiguous();
    }
    expect_equal(scan(policy_of<TestingHitters>(R"({"capacity": 12})"), shape, input.q, 0, cache),
                 simulate(shape, input, cache, 12, 6, 0, false, true), "half recent");
    expect_equal(scan(policy_of<TestingHitters>(R"({"capacity": 70, "recent": 0, "sinks": 3})"), shape,
                      input.q, 0, cache),
                 simulate(shape, input, cache, 70, 0, 3, false, true), "sinks");
    expect_equal(scan(policy_of<TestingHitters>(R"({"capacity": 1})"), shape, input.q, 0, cache),
                 simulate(shape, input, cache, 1, 0, 0, false, true), "one token");
    const at::Tensor shared =
        scan(policy_of<TestingNewestWeight>(R"({"capacity": 9})"), shape, input.q, 0, cache);
    expect_equal(shared, simulate(shape, input, cache, 9, 0, 0, true, false), "shared");
    // A policy without a history may start where the first token leaves.
    EXPECT_TRUE(at::equal(shared, scan(policy_of<TestingNewestWeight>(R"({"capacity": 9})"), shape,
                                       input.q.narrow(0, 8, 75).contiguous(), 8, cache)));
  }
}

TEST(Scan, TiesGoToTheOldest) {
  const CacheShape shape = small_shape(20);
  LayerInput input = random_layer(shape, 12);
  input.k.zero_();
  const at::Tensor gone =
      scan(policy_of<TestingNewestWeight>(R"({"capacity": 6})"), shape, input.q, 0, cache_of(input));
  for (int64_t j = 0; j < 14; ++j) EXPECT_EQ(gone[0][j].item<int32_t>(), j + 6);
}

TEST(Scan, RefusesWhatItCannotLiveThrough) {
  const CacheShape shape = small_shape();
  const LayerInput input = random_layer(shape, 14);
  EXPECT_THROW(scan(policy_of<TestingHitters>(R"({"capacity": 5})"), shape, input.q.narrow(0, 4, 33), 4,
                    cache_of(input)),
               Failure);
  EXPECT_THROW(scan(policy_of<Stubborn>(R"({"capacity": 5})"), shape, input.q, 0, cache_of(input)), Failure);
}

TEST(Scan, BoundsWhatIsProtected) {
  auto error = [](const char* knobs) -> std::string {
    try {
      policy_of<TestingHitters>(knobs);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error(R"({"capacity": 8, "recent": 8})"),
            "evict.recent: found 8, expected an integer from 0 to 7");
  EXPECT_EQ(error(R"({"capacity": 8, "recent": 4, "sinks": 4})"),
            "evict.sinks: found 4, expected an integer from 0 to 3");
  EXPECT_EQ(error(R"({"capacity": 8, "recent": 0, "sinks": 6})"), "accepted");
}

}  // namespace kvcost
