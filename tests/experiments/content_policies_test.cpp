// Policies that evict after every token, against caches lived through by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

json with(const char* policy, json knobs) {
  knobs["policy"] = policy;
  return knobs;
}

Seen plain_h2o(const PlainLayer& layer, int64_t capacity, int64_t recent, int64_t sinks) {
  Scores drawn(layer.shape().kv_heads, std::vector<double>(layer.shape().tokens, 0.0));
  return live(layer.shape(), 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
    const std::vector<double> mean = layer.mean_weights(h, 1, i, kept);
    std::vector<double> badness;
    for (size_t s = 0; s < kept.size(); ++s) badness.push_back(-(drawn[h][kept[s]] += mean[s]));
    if (int64_t(kept.size()) < capacity) return {};
    return worst(kept, badness, recent, sinks);
  });
}

Seen plain_tova(const PlainLayer& layer, int64_t capacity, int64_t recent, int64_t sinks) {
  const int64_t all = layer.shape().kv_heads;
  return live(layer.shape(), all, [&](int64_t, int64_t i, const Tokens& kept) -> Tokens {
    if (int64_t(kept.size()) < capacity) return {};
    std::vector<double> badness = layer.mean_weights(0, all, i, kept);
    for (double& weight : badness) weight = -weight;
    return worst(kept, badness, recent, sinks);
  });
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

std::vector<std::vector<double>> keys_of(const PlainLayer& layer, int64_t h, int64_t i, const Tokens& kept) {
  std::vector<std::vector<double>> keys;
  for (int64_t j : kept) {
    const std::vector<float> key = layer.key(h, j, i, kept);
    keys.emplace_back(key.begin(), key.end());
  }
  return keys;
}

Seen plain_keynorm(const PlainLayer& layer, int64_t capacity, int64_t recent, int64_t sinks) {
  return live(layer.shape(), 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
    if (int64_t(kept.size()) < capacity) return {};
    std::vector<double> norms;
    for (const auto& key : keys_of(layer, h, i, kept)) norms.push_back(std::sqrt(dot(key, key)));
    return worst(kept, norms, recent, sinks);
  });
}

Seen plain_keydiff(const PlainLayer& layer, int64_t capacity, int64_t recent, int64_t sinks) {
  return live(layer.shape(), 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
    if (int64_t(kept.size()) < capacity) return {};
    auto keys = keys_of(layer, h, i, kept);
    std::vector<double> mean(keys[0].size(), 0.0), cosines;
    for (auto& key : keys) {
      const double norm = std::sqrt(dot(key, key));
      for (size_t c = 0; c < key.size(); ++c) mean[c] += (key[c] /= norm) / double(kept.size());
    }
    for (const auto& key : keys) cosines.push_back(dot(key, mean) / std::sqrt(dot(mean, mean)));
    return worst(kept, cosines, recent, sinks);
  });
}

/// Queries and keys all zero, for the test to set.
LayerInput blank_layer(const CacheShape& shape) {
  LayerInput input = random_layer(shape, 22);
  input.q.zero_(), input.k.zero_();
  return input;
}

Seen seen_of(const json& evict, const CacheShape& shape, const LayerInput& input) {
  RowCache policy({{"evict", evict}}, "row");
  policy.begin(shape);
  return seen_by(policy(input), shape);
}

std::string error_of(const json& evict) {
  try {
    make_policy(evict, "evict");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST(H2o, LivesAsByHand) {
  for (int64_t capacity : {1, 2, 3, 7, 70, 200}) {
    expect_lives_like(with("h2o", {{"capacity", capacity}}),
                      [&](const PlainLayer& layer) { return plain_h2o(layer, capacity, capacity / 2, 0); });
  }
  for (auto [recent, sinks] : {std::pair(0, 0), {1, 0}, {3, 4}, {7, 0}, {0, 6}}) {
    expect_lives_like(
        with("h2o", {{"capacity", 8}, {"recent", recent}, {"sinks", sinks}}),
        [&, r = recent, s = sinks](const PlainLayer& layer) { return plain_h2o(layer, 8, r, s); });
  }
}

// Every query looks at the first token alone; the others have drawn exactly nothing.
TEST(H2o, TiesGoToTheOldest) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 10);
  LayerInput input = blank_layer(shape);
  input.q.select(2, 0).fill_(100);
  input.k.select(2, 0).fill_(-100);
  input.k[0].select(1, 0).fill_(100);
  const Seen seen = seen_of(with("h2o", {{"capacity", 6}, {"recent", 2}}), shape, input);
  for (int64_t i = 10; i < 30; ++i) EXPECT_EQ(seen[1][i], (Tokens{0, i - 4, i - 3, i - 2, i - 1, i}));
}

TEST(Tova, LivesAsByHand) {
  for (int64_t capacity : {1, 2, 3, 7, 70, 200}) {
    expect_lives_like(with("tova", {{"capacity", capacity}}),
                      [&](const PlainLayer& layer) { return plain_tova(layer, capacity, 0, 0); });
  }
  for (auto [recent, sinks] : {std::pair(0, 4), {3, 0}, {3, 4}, {7, 0}}) {
    expect_lives_like(
        with("tova", {{"capacity", 8}, {"recent", recent}, {"sinks", sinks}}),
        [&, r = recent, s = sinks](const PlainLayer& layer) { return plain_tova(layer, 8, r, s); });
  }
}

TEST(Tova, TiesGoToTheOldest) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 10);
  const Seen seen = seen_of(with("tova", {{"capacity", 4}}), shape, blank_layer(shape));
  for (int64_t i = 10; i < 30; ++i) EXPECT_EQ(seen[0][i], (Tokens{i - 3, i - 2, i - 1, i}));
}

TEST(KeyNorm, LivesAsByHand) {
  for (int64_t capacity : {1, 2, 3, 7, 70, 200}) {
    expect_lives_like(with("keynorm", {{"capacity", capacity}}),
                      [&](const PlainLayer& layer) { return plain_keynorm(layer, capacity, 0, 0); });
  }
  for (auto [recent, sinks] : {std::pair(0, 4), {3, 0}, {3, 4}, {7, 0}}) {
    expect_lives_like(
        with("keynorm", {{"capacity", 8}, {"recent", recent}, {"sinks", sinks}}),
        [&, r = recent, s = sinks](const PlainLayer& layer) { return plain_keynorm(layer, 8, r, s); });
  }
}

TEST(KeyDiff, LivesAsByHand) {
  for (int64_t capacity : {1, 2, 3, 7, 70, 200}) {
    expect_lives_like(with("keydiff", {{"capacity", capacity}}),
                      [&](const PlainLayer& layer) { return plain_keydiff(layer, capacity, 0, 0); });
  }
  for (auto [recent, sinks] : {std::pair(0, 4), {3, 0}, {3, 4}, {7, 0}}) {
    expect_lives_like(
        with("keydiff", {{"capacity", 8}, {"recent", recent}, {"sinks", sinks}}),
        [&, r = recent, s = sinks](const PlainLayer& layer) { return plain_keydiff(layer, 8, r, s); });
  }
}

// Keys of one direction and one length, and keys that are nothing at all.
TEST(KeyPolicies, TiesGoToTheOldest) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 10);
  for (const char* policy : {"keynorm", "keydiff"}) {
    for (float number : {0.0f, 0.3f}) {
      LayerInput input = blank_layer(shape);
      input.k.fill_(number);
      const Seen all = seen_of(with(policy, {{"capacity", 4}}), shape, input);
      const Seen some = seen_of(with(policy, {{"capacity", 6}, {"recent", 3}, {"sinks", 2}}), shape, input);
      for (int64_t i = 10; i < 30; ++i) {
        EXPECT_EQ(all[0][i], (Tokens{i - 3, i - 2, i - 1, i})) << policy;
        EXPECT_EQ(some[1][i], (Tokens{0, 1, i - 3, i - 2, i - 1, i})) << policy;
      }
    }
  }
}

// Scores that are not numbers: the model's check stops the row, not the policy.
TEST(ContentPolicies, LiveThroughNaN) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 10);
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      LayerInput input = random_layer(shape, 22);
      input.k[5].fill_(NAN), input.q[7].fill_(NAN), input.v[9].fill_(NAN);
      const Seen seen = seen_of(with(entry.name.c_str(), json::parse(knobs)), shape, input);
      EXPECT_EQ(seen[0][29].back(), 29) << entry.name;
    }
  }
}

// The mean takes each key at length 1 (a long one does not pull it) and protected ones too.
TEST(KeyDiff, ComparesWithTheMeanDirection) {
  const CacheShape shape = shape_of(1, 1, 2, 5, 1);
  LayerInput input = blank_layer(shape);
  const float keys[5][2] = {{1, 0}, {0, 1000}, {0.8f, 0.6f}, {1, 0.1f}, {1, 0}};
  for (int64_t j = 0; j < 5; ++j) {
    for (int64_t c = 0; c < 2; ++c) input.k[j][0][c] = keys[j][c];
  }
  const Seen seen = seen_of(with("keydiff", {{"capacity", 4}, {"sinks", 1}}), shape, input);
  EXPECT_EQ(seen[0][4], (Tokens{0, 1, 3, 4}));
}

TEST(ContentPolicies, BoundWhatIsSafe) {
  for (const char* policy : {"h2o", "tova", "keynorm", "keydiff", "random"}) {
    EXPECT_EQ(error_of(with(policy, {{"capacity", 8}, {"recent", 8}})),
              "evict.recent: found 8, expected an integer from 0 to 7");
    EXPECT_EQ(error_of(with(policy, {{"capacity", 8}, {"recent", 5}, {"sinks", 3}})),
              "evict.sinks: found 3, expected an integer from 0 to 2");
  }
}

}  // namespace kvcost
