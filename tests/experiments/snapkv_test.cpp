#include <gtest/gtest.h>

#include <set>

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

  json knobs() const {
    return {{"policy", "snapkv"},
            {"capacity", capacity},
            {"observe", observe},
            {"kernel", kernel},
            {"pool", pool}};
  }
};

/// One query head's votes for the prompt's earlier tokens, pooled with zeros (avg) or nothing (max) beyond.
std::vector<double> plain_pool(const std::vector<double>& votes, const Form& form) {
  std::vector<double> out;
  for (int64_t j = 0; j < int64_t(votes.size()); ++j) {
    double sum = 0;
    std::vector<double> inside;
    for (int64_t n = j - form.kernel / 2; n <= j + form.kernel / 2; ++n) {
      if (n < 0 || n >= int64_t(votes.size())) continue;
      inside.push_back(votes[n]), sum += votes[n];
    }
    out.push_back(form.pool == "avg" ? sum / double(form.kernel)
                                     : *std::max_element(inside.begin(), inside.end()));
  }
  return out;
}

Seen plain_snapkv(const PlainLayer& layer, const Form& form) {
  const int64_t prompt = layer.shape().prompt, earlier = prompt - form.observe;
  return live(layer.shape(), 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
    if (i != prompt - 1 || prompt <= form.capacity) return {};
    std::vector<double> scores(earlier, 0.0);
    for (int64_t head = h * layer.group(); head < (h + 1) * layer.group(); ++head) {
      std::vector<double> votes(earlier, 0.0);
      for (int64_t query = earlier; query < prompt; ++query) {
        const Tokens there(kept.begin(), kept.begin() + query + 1);
        const std::vector<double> weights = layer.weights(head, query, there);
        for (int64_t j = 0; j < earlier; ++j) votes[j] += weights[j];
      }
      const std::vector<double> pooled = plain_pool(votes, form);
      for (int64_t j = 0; j < earlier; ++j) scores[j] += pooled[j] / double(layer.group());
    }
    Tokens order(kept.begin(), kept.begin() + earlier);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] < scores[b]; });
    order.resize(prompt - form.capacity);
    return order;
  });
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

TEST(SnapKv, CutsThePromptAsByHand) {
  for (const char* pool : {"avg", "max"}) {
    for (const Form& form : {Form{1, 1, 1, pool}, Form{2, 1, 5, pool}, Form{2, 2, 3, pool},
                             Form{7, 3, 5, pool}, Form{9, 4, 1, pool}, Form{10, 1, 7, pool},
                             Form{40, 32, 5, pool}, Form{50, 8, 999, pool}, Form{200, 32, 5, pool}}) {
      expect_lives_like(form.knobs(), [&](const PlainLayer& layer) { return plain_snapkv(layer, form); });
    }
  }
}

TEST(SnapKv, DefaultsAreTheAuthors) {
  const Form form{40, 32, 5, "avg"};
  expect_lives_like({{"policy", "snapkv"}, {"capacity", 40}},
                    [&](const PlainLayer& layer) { return plain_snapkv(layer, form); });
}

// All weights alike: an average is lower near the ends, where it counts zeros; then the oldest go.
TEST(SnapKv, TiesGoToTheOldest) {
  const CacheShape shape = shape_of(4, 2, 8, 30, 20);
  LayerInput input = random_layer(shape, 23);
  input.q.zero_();
  for (const char* pool : {"avg", "max"}) {
    RowCache policy({{"evict", Form{10, 4, 3, pool}.knobs()}}, "row");
    policy.begin(shape);
    const Seen seen = seen_by(policy(input), shape);
    Tokens want = pool == std::string("avg") ? Tokens{9, 10, 11, 12, 13, 14} : Tokens{10, 11, 12, 13, 14, 15};
    for (int64_t j = 16; j <= 20; ++j) want.push_back(j);
    EXPECT_EQ(seen[0][20], want) << pool;
    EXPECT_EQ(seen[1][19].size(), 20u) << "the prompt's last query still sees all of it";
  }
}

TEST(SnapKv, StartsWhereItsQueriesVote) {
  CacheShape shape = shape_of(4, 2, 8, 30, 20);
  auto policy = make_policy(Form{10, 4, 3, "avg"}.knobs(), "evict");
  EXPECT_EQ(policy->same_until(shape), 16);
  EXPECT_EQ(policy->capacity(), kNever);
  shape.prompt = 10;
  EXPECT_EQ(policy->same_until(shape), 30) << "nothing is cut";
}

TEST(SnapKv, BoundsItsKnobs) {
  EXPECT_EQ(error_of({{"policy", "snapkv"}, {"capacity", 20}}),
            "evict.observe: found nothing, expected an integer from 1 to 20 (32 if not given)");
  EXPECT_EQ(error_of({{"policy", "snapkv"}, {"capacity", 20}, {"observe", 21}}),
            "evict.observe: found 21, expected an integer from 1 to 20");
  EXPECT_EQ(error_of({{"policy", "snapkv"}, {"capacity", 64}, {"kernel", 4}}),
            "evict.kernel: found 4, expected an odd integer: a pool has a middle");
  EXPECT_EQ(
      error_of({{"policy", "snapkv"}, {"capacity", 64}, {"pool", "mean"}}).rfind("evict.pool: unknown", 0),
      0u);
}

}  // namespace kvcost
