#include "src/model/attention.h"

#include <gtest/gtest.h>

namespace kvcost {
namespace {

/// Query by query, token by token, in double: what attend() must equal.
at::Tensor dense(const at::Tensor& q, int64_t first_query, const CachedTokens& cache) {
  const int64_t queries = q.size(0), heads = q.size(1), d = q.size(2), kv_heads = cache.k.size(1);
  at::Tensor out = at::zeros({queries, heads, d}, at::kDouble);
  for (int64_t row = 0; row < queries * heads; ++row) {
    const int64_t i = first_query + row / heads, kv = row % heads / (heads / kv_heads);
    auto life = [&](const at::Tensor& t, int64_t j, int32_t fallback) {
      return t.defined() ? t.const_data_ptr<int32_t>()[kv * t.size(1) + j] : fallback;
    };
    auto read = [&](const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& rounded_at,
                    int64_t j) {
      bool is_exact = !rounded.defined() || i < life(rounded_at, j, 0);
      return (is_exact ? exact : rounded).const_data_ptr<float>() + (j * kv_heads + kv) * d;
    };
    const float* query = q.const_data_ptr<float>() + row * d;
    double* sum = out.mutable_data_ptr<double>() + row * d;
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      if (i >= life(cache.evicted_at, j, kNever)) continue;
      const float* k = read(cache.k, cache.k_rounded, cache.k_rounded_at, j);
      const float* v = read(cache.v, cache.v_rounded, cache.v_rounded_at, j);
      double score = 0;
      for (int64_t x = 0; x < d; ++x) score += double(query[x]) * k[x];
      const double weight = std::exp(score / std::sqrt(double(d)));
      total += weight;
      for (int64_t x = 0; x < d; ++x) sum[x] += weight * v[x];
    }
    for (int64_t x = 0; x < d; ++x) sum[x] /= total;
  }
  return out;
}

struct Shape {
  int64_t query_heads, kv_heads, head_dim, tokens, first_query;
};

class Attention : public testing::TestWithParam<Shape> {
 protected:
  Attention() {
    at::manual_seed(7);
    const Shape& s = GetParam();
    q = at::randn({s.tokens - s.first_query, s.query_heads, s.head_dim}) * 3;
    cache.k = at::randn({s.tokens, s.kv_heads, s.head_dim});
    cache.v = at::randn({s.tokens, s.kv_heads, s.head_dim});
    position = at::arange(s.tokens, at::kInt).expand({s.kv_heads, s.tokens});
  }
  at::Tensor random_times(int64_t most) {
    return (position + 1 + at::randint(most, position.sizes(), at::kInt)).to(at::kInt).contiguous();
  }
  void round_both() {
    cache.k_rounded = cache.k + 0.3 * at::randn_like(cache.k);
    cache.v_rounded = cache.v + 0.3 * at::randn_like(cache.v);
  }
  void expect_dense() {
    at::Tensor out = at::full_like(q, 99);
    attend(q, GetParam().first_query, cache, out);
    at::Tensor gap = (out.to(at::kDouble) - dense(q, GetParam().first_query, cache)).abs().max();
    EXPECT_LT(gap.item<double>(), 2e-5);
  }
  at::Tensor q, position;
  CachedTokens cache;
};

TEST_P(Attention, FullCache) { expect_dense(); }

TEST_P(Attention, Window) {
  cache.evicted_at = (position + 5).contiguous();
  expect_dense();
}

TEST_P(Attention, ScatteredEviction) {
  cache.evicted_at = random_times(40);
  expect_dense();
}

TEST_P(Attention, AlwaysRounded) {
  round_both();
  expect_dense();
}

TEST_P(Attention, OnlyValuesRounded) {
  cache.v_rounded = cache.v + 0.3;
  expect_dense();
}

TEST_P(Attention, RecentExactAndEviction) {
  round_both();
  cache.k_rounded_at = (position + 9).contiguous();
  cache.v_rounded_at = random_times(30);
  cache.evicted_at = random_times(60);
  expect_dense();
}

TEST_P(Attention, NeverLivesEqualTheFullCacheBitForBit) {
  at::Tensor full = at::empty_like(q), other = at::empty_like(q);
  attend(q, GetParam().first_query, cache, full);
  round_both();
  cache.evicted_at = at::full_like(position, int64_t{kNever}).contiguous();
  cache.k_rounded_at = cache.v_rounded_at = cache.evicted_at;
  attend(q, GetParam().first_query, cache, other);
  EXPECT_TRUE(at::equal(full, other));
}

TEST_P(Attention, TheFutureChangesNothing) {
  round_both();
  cache.evicted_at = random_times(60);
  cache.k_rounded_at = random_times(30);
  at::Tensor before = at::empty_like(q), after = at::empty_like(q);
  attend(q, GetParam().first_query, cache, before);
  const int64_t cut = (GetParam().first_query + GetParam().tokens) / 2;
  for (at::Tensor* t : {&cache.k, &cache.v, &cache.k_rounded, &cache.v_rounded}) {
    *t = t->clone();
    t->narrow(0, cut, GetParam().tokens - cut).mul_(-3).add_(1);
  }
  attend(q, GetParam().first_query, cache, after);
  const int64_t same = cut - GetParam().first_query;
  EXPECT_TRUE(at::equal(before.narrow(0, 0, same), after.narrow(0, 0, same)));
  EXPECT_FALSE(at::equal(before, after));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Shape{9, 3, 64, 301, 0}, Shape{14, 2, 64, 150, 0},
                                         Shape{4, 4, 32, 97, 0}, Shape{9, 3, 64, 300, 170},
                                         Shape{2, 1, 16, 7, 6}, Shape{3, 1, 8, 1, 0}));

}  // namespace

TEST(Rotate, TurnsPairsAHalfApart) {
  at::Tensor x = at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({1, 1, 4});
  at::Tensor cos = at::tensor({0.0f, 1.0f}).view({1, 2}), sin = at::tensor({1.0f, 0.0f}).view({1, 2});
  rotate(x, cos, sin);
  EXPECT_TRUE(at::equal(x.flatten(), at::tensor({-3.0f, 2.0f, 1.0f, 4.0f})));
}

}  // namespace kvcost
