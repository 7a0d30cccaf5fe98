#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace kvcost::testing {

/// A key and a value as one query reads them, head_dim numbers each.
struct SeenToken {
  const float* k;
  const float* v;
};

/// Softmax attention of one query head over the tokens it sees, by the textbook, in double. Scale
/// 1/sqrt(head_dim).
inline std::vector<double> dense_attention(const float* q, const std::vector<SeenToken>& seen,
                                           int64_t head_dim) {
  std::vector<double> weights, out(static_cast<size_t>(head_dim), 0.0);
  double most = -INFINITY, sum = 0;
  for (const SeenToken& token : seen) {
    double score = 0;
    for (int64_t c = 0; c < head_dim; ++c) score += double(q[c]) * double(token.k[c]);
    weights.push_back(score / std::sqrt(double(head_dim)));
    most = std::max(most, weights.back());
  }
  for (double& w : weights) sum += w = std::exp(w - most);
  for (size_t j = 0; j < seen.size(); ++j) {
    for (int64_t c = 0; c < head_dim; ++c) out[c] += weights[j] / sum * double(seen[j].v[c]);
  }
  return out;
}

/// The weights alone.
inline std::vector<double> dense_weights(const float* q, const std::vector<const float*>& keys,
                                         int64_t head_dim) {
  std::vector<double> weights;
  double most = -INFINITY, sum = 0;
  for (const float* k : keys) {
    double score = 0;
    for (int64_t c = 0; c < head_dim; ++c) score += double(q[c]) * double(k[c]);
    weights.push_back(score / std::sqrt(double(head_dim)));
    most = std::max(most, weights.back());
  }
  for (double& w : weights) sum += w = std::exp(w - most);
  for (double& w : weights) w /= sum;
  return weights;
}

}  // namespace kvcost::testing
