#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "tests/support/kept_tokens.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

struct Form {
  int64_t capacity, every, sinks = 0, recent = 0, ahead = 30;
  bool covariance = true, values = true;

  json knobs() const {
    return {{"policy", "expected"}, {"capacity", capacity}, {"every", every},           {"sinks", sinks},
            {"recent", recent},     {"ahead", ahead},       {"covariance", covariance}, {"values", values}};
  }
};

using Vector = std::vector<double>;

/// Rotate-half by `angle(c)` of each pair.
template <class Angle>
Vector turned(const Vector& x, const Angle& angle) {
  const size_t half = x.size() / 2;
  Vector out(x.size());
  for (size_t c = 0; c < half; ++c) {
    const double cos = std::cos(angle(c)), sin = std::sin(angle(c));
    out[c] = x[c] * cos - x[c + half] * sin;
    out[c + half] = x[c + half] * cos + x[c] * sin;
  }
  return out;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

Vector numbers_of(const at::Tensor& x, int64_t token, int64_t head) {
  const at::Tensor row = x[token][head].contiguous();
  return Vector(row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel());
}

class PlainExpected {
 public:
  PlainExpected(const CacheShape& shape, const LayerInput& input, const CachedTokens& cache, const Form& form,
                bool renumbered)
      : shape_(shape), input_(input), layer_(shape, input, cache, renumbered), form_(form) {
    for (int64_t c = 0; c < shape.head_dim / 2; ++c) frequency_.push_back(angle(1, c));
  }

  Seen seen() const {
    return live(shape_, 1, [&](int64_t h, int64_t i, const Tokens& kept) -> Tokens {
      if (int64_t(kept.size()) < form_.capacity) return {};
      const std::vector<std::pair<double, int64_t>> order = scores(h, i, kept);
      Tokens gone;
      for (int64_t n = 0; n < form_.every; ++n) gone.push_back(order[n].second);
      return gone;
    });
  }

 private:
  /// Those that may go, the worst first.
  std::vector<std::pair<double, int64_t>> scores(int64_t kv_head, int64_t i, const Tokens& kept) const {
    const int64_t group = layer_.group(), d = shape_.head_dim;
    Tokens counted;
    for (int64_t j : kept) {
      if (j >= form_.sinks) counted.push_back(j);
    }
    Vector mean(counted.size(), 0.0);
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Vector expected = expected_exponents(head, kv_head, i, counted, kept);
      double most = -INFINITY, sum = 0;
      for (double x : expected) most = std::max(most, x);
      for (double x : expected) sum += std::exp(x - most);
      for (size_t n = 0; n < counted.size(); ++n)
        mean[n] += std::exp(expected[n] - most) / sum / double(group);
    }
    std::vector<std::pair<double, int64_t>> order;
    for (size_t n = 0; n < counted.size(); ++n) {
      const Vector value = numbers_of(input_.v, counted[n], kv_head);
      if (counted[n] > i - std::max<int64_t>(1, form_.recent)) continue;
      order.push_back({form_.values ? mean[n] * std::sqrt(dot(value, value)) : mean[n], counted[n]});
    }
    std::sort(order.begin(), order.end());
    EXPECT_GE(int64_t(order.size()), std::min<int64_t>(form_.every, d * 1000));
    return order;
  }

  /// log of the expected exponential, by its definition: turns of each past query to each of the next
  /// positions, averaged before anything else.
  Vector expected_exponents(int64_t head, int64_t kv_head, int64_t i, const Tokens& counted,
                            const Tokens& kept) const {
    const size_t d = size_t(shape_.head_dim);
    std::vector<Vector> queries;
    for (int64_t p = form_.sinks; p <= i; ++p) {
      queries.push_back(
          averaged(turned(numbers_of(input_.q, p, head), [&](size_t c) { return -angle(p, int64_t(c)); }),
                   layer_.position(i, kept)));
    }
    Vector middle(d, 0.0);
    for (const Vector& q : queries) {
      for (size_t c = 0; c < d; ++c) middle[c] += q[c] / double(queries.size());
    }
    Vector out;
    for (int64_t j : counted) {
      const std::vector<float> row = layer_.key(kv_head, j, i, kept);
      const Vector key(row.begin(), row.end());
      double exponent = dot(middle, key) / std::sqrt(double(d)), variance = 0;
      for (const Vector& q : queries) variance += std::pow(dot(q, key) - dot(middle, key), 2);
      if (form_.covariance) exponent += variance / double(queries.size()) / (2 * double(d));
      out.push_back(exponent);
    }
    return out;
  }

  double angle(int64_t position, int64_t channel) const {
    const int64_t at = position * input_.cos.size(1) + channel;
    return std::atan2(double(input_.sin.const_data_ptr<float>()[at]),
                      double(input_.cos.const_data_ptr<float>()[at]));
  }

  /// At the positions after `newest`.
  Vector averaged(const Vector& q, int64_t newest) const {
    Vector out(q.size(), 0.0);
    for (int64_t n = 1; n <= form_.ahead; ++n) {
      const Vector there = turned(q, [&](size_t c) { return double(newest + n) * frequency_[c]; });
      for (size_t c = 0; c < q.size(); ++c) out[c] += there[c] / double(form_.ahead);
    }
    return out;
  }

  CacheShape shape_;
  LayerInput input_;
  PlainLayer layer_;
  Form form_;
  Vector frequency_;
};

std::string error_of(json evict) {
  try {
    evict["policy"] = "expected";
    make_policy(evict, "evict");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST(Expected, LivesAsByHand) {
  std::vector<Form> forms = {{2, 1},
                             {5, 1, 3},
                             {8, 3, 2, 0, 9},
                             {8, 4, 0, 4, 20},
                             {20, 15, 4, 1, 3},
                             {9, 2, 4, 2, 7, false, true},
                             {9, 2, 1, 2, 7, true, false}};
  for (const Form& form : forms) {
    for (const CacheShape& shape :
         {shape_of(6, 2, 16, 37, 11), shape_of(9, 3, 20, 41, 40), shape_of(2, 1, 2, 2, 1)}) {
      for (int n = 0; n < 4; ++n) {
        const bool rounded = n % 2 == 1, renumbered = n / 2 == 1;
        const LayerInput input = random_layer(shape, 41);
        json row = {{"evict", form.knobs()}};
        if (rounded) {
          row["keys"] = {{"codec", "minmax"}, {"bits", 3}, {"axis", "token"}, {"group", shape.head_dim}};
          row["exact_last"] = 5;
        }
        if (renumbered) row["evict"]["positions"] = "cache";
        if (renumbered && rounded) row["keys"]["rope"] = "before";
        RowCache policy(row, "row");
        policy.begin(shape);
        const CachedTokens cache = policy(input);
        const Seen got = seen_by(cache, shape);
        const Seen want = PlainExpected(shape, input, cache, form, renumbered).seen();
        for (int64_t h = 0; h < shape.kv_heads; ++h) {
          for (int64_t i = 0; i < shape.tokens; ++i)
            ASSERT_EQ(got[h][i], want[h][i]) << row << " query " << i;
        }
      }
    }
  }
}

TEST(Expected, BoundsItsKnobs) {
  EXPECT_EQ(error_of({{"capacity", 5}}),
            "evict.sinks: found nothing, expected an integer from 0 to 3 (4 if not given)");
  EXPECT_EQ(error_of({{"capacity", 6}, {"every", 2}}),
            "evict.every: found 2, expected an integer from 1 to 1");
  EXPECT_EQ(error_of({{"capacity", 6}}), "accepted");
  EXPECT_EQ(error_of({{"capacity", 8}, {"recent", 4}, {"sinks", 4}}),
            "evict.sinks: found 4, expected an integer from 0 to 3");
}

}  // namespace kvcost
