#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

struct Form {
  int64_t capacity, observe, kernel;
  std::string pool;
  double alpha;

  json knobs() const {
    return {{"policy", "adakv"}, {"capacity", capacity}, {"observe", observe},
            {"kernel", kernel},  {"pool", pool},         {"alpha", alpha}};
  }
};

/// One query head's votes, pooled with zeros (avg) or nothing (max) beyond the ends.
double pooled(const std::vector<double>& votes, int64_t middle, const Form& form) {
  double sum = 0, most = 0;
  for (int64_t n = middle - form.kernel / 2; n <= middle + form.kernel / 2; ++n) {
    if (n < 0 || n >= int64_t(votes.size())) continue;
    sum += votes[n], most = std::max(most, votes[n]);
  }
  return form.pool == "avg" ? sum / double(form.kernel) : most;
}

std::vector<double> votes_of(const PlainLayer& layer, int64_t kv_head, const Form& form) {
  const int64_t earlier = layer.shape().prompt - form.observe;
  std::vector<double> scores(size_t(earlier), 0.0);
  for (int64_t head = kv_head * layer.group(); head < (kv_head + 1) * layer.group(); ++head) {
    std::vector<double> votes(size_t(earlier), 0.0);
    for (int64_t query = earlier; query < layer.shape().prompt; ++query) {
      Tokens all(size_t(query) + 1);
      std::iota(all.begin(), all.end(), int64_t{0});
      const std::vector<double> weights = layer.weights(head, query, all);
      for (int64_t j = 0; j < earlier; ++j) votes[j] += weights[j];
    }
    for (int64_t j = 0; j < earlier; ++j) scores[j] += pooled(votes, j, form) / double(layer.group());
  }
  return scores;
}

/// Tokens by score, the best first; of equals the newer.
Tokens by_score(const std::vector<double>& scores) {
  Tokens order(scores.size());
  std::iota(order.rbegin(), order.rend(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  return order;
}

Seen plain_adakv(const PlainLayer& layer, const Form& form) {
  const CacheShape& shape = layer.shape();
  const int64_t heads = shape.kv_heads, even = form.capacity - form.observe;
  std::vector<Tokens> gone(static_cast<size_t>(heads));
  if (shape.prompt > form.capacity) {
    std::vector<std::vector<double>> scores;
    std::vector<std::pair<double, int64_t>> all;
    for (int64_t h = 0; h < heads; ++h) {
      scores.push_back(votes_of(layer, h, form));
      for (double score : scores.back()) all.push_back({-score, h});
    }
    std::sort(all.begin(), all.end());
    std::vector<double> ideal(size_t(heads), form.alpha * double(even));
    for (int64_t n = 0; n < heads * even; ++n) ideal[all[n].second] += 1 - form.alpha;
    std::vector<int64_t> share;
    for (double& x : ideal) {
      x = std::round(x * 1e6) / 1e6;
      share.push_back(int64_t(std::floor(x)));
    }
    // One by one to whoever is furthest below its ideal.
    while (std::accumulate(share.begin(), share.end(), int64_t{0}) < heads * even) {
      size_t most = 0;
      for (size_t h = 1; h < share.size(); ++h) {
        if (ideal[h] - double(share[h]) > ideal[most] - double(share[most]) + 1e-7) most = h;
      }
      ++share[most];
    }
    for (int64_t h = 0; h < heads; ++h) {
      const Tokens order = by_score(scores[h]);
      gone[h].assign(order.begin() + share[h], order.end());
    }
  }
  return live(shape, 1, [&](int64_t h, int64_t i, const Tokens&) -> Tokens {
    return i == shape.prompt - 1 ? gone[h] : Tokens{};
  });
}

std::vector<int64_t> kept_by_head(const Form& form, const CacheShape& shape, const LayerInput& input) {
  RowCache policy({{"evict", form.knobs()}}, "row");
  policy.begin(shape);
  const Seen seen = seen_by(policy(input), shape);
  std::vector<int64_t> out;
  for (const auto& head : seen) out.push_back(int64_t(head[shape.prompt].size()) - 1);
  return out;
}

}  // namespace

TEST(AdaKv, CutsThePromptAsByHand) {
  for (double alpha : {0.0, 0.2, 0.55, 1.0}) {
    for (const Form& form :
         {Form{1, 1, 1, "avg", alpha}, Form{2, 1, 5, "max", alpha}, Form{7, 3, 5, "max", alpha},
          Form{9, 4, 1, "avg", alpha}, Form{10, 1, 7, "max", alpha}, Form{40, 32, 5, "avg", alpha},
          Form{200, 32, 5, "max", alpha}}) {
      expect_lives_like(form.knobs(), [&](const PlainLayer& layer) { return plain_adakv(layer, form); });
    }
  }
}

TEST(AdaKv, DefaultsAreTheAuthors) {
  const Form form{40, 32, 7, "max", 0.2};
  expect_lives_like({{"policy", "adakv"}, {"capacity", 40}},
                    [&](const PlainLayer& layer) { return plain_adakv(layer, form); });
}

// One head looks at one token, the other at all alike: it gets all that is not divided evenly.
TEST(AdaKv, AHeadThatLooksAtMoreGetsMore) {
  const CacheShape shape = shape_of(2, 2, 8, 30, 24);
  LayerInput input = random_layer(shape, 29);
  input.q.zero_(), input.k.zero_();
  input.q.select(1, 0).select(1, 0).fill_(100);
  input.k.select(1, 0).select(1, 0).fill_(-100);
  input.k[5][0][0].fill_(100);
  EXPECT_EQ(kept_by_head({10, 4, 1, "avg", 0.5}, shape, input), (std::vector<int64_t>{4 + 4, 4 + 8}));
  EXPECT_EQ(kept_by_head({10, 4, 1, "avg", 0}, shape, input), (std::vector<int64_t>{4 + 1, 4 + 11}));
  EXPECT_EQ(kept_by_head({10, 4, 1, "avg", 1}, shape, input), (std::vector<int64_t>{10, 10}));
}

TEST(AdaKv, HeadsHoldTheCapacityOnAverage) {
  const CacheShape shape = shape_of(9, 3, 20, 61, 50);
  for (double alpha : {0.0, 0.1, 0.2, 1.0 / 3}) {
    const auto kept = kept_by_head({20, 7, 3, "max", alpha}, shape, random_layer(shape, 30));
    EXPECT_EQ(std::accumulate(kept.begin(), kept.end(), int64_t{0}), 3 * 20);
    for (int64_t count : kept) EXPECT_GE(count, 7 + int64_t(alpha * 13));
  }
}

}  // namespace kvcost
