#pragma once
#include <ATen/ATen.h>

#include <cmath>

#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost::testing {

/// Grouped heads, an odd length, groups that do not divide it.
inline CacheShape small_shape(int64_t tokens = 37) {
  CacheShape shape;
  shape.layers = 1, shape.query_heads = 6, shape.kv_heads = 2, shape.head_dim = 16;
  shape.tokens = tokens, shape.prompt = 11;
  return shape;
}

/// Random projections of a layer, queries and keys large enough that attention is far from even.
inline LayerInput random_layer(const CacheShape& shape, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  auto random = [&](at::IntArrayRef size) {
    return at::randn(size, generator, at::TensorOptions(at::kFloat));
  };
  LayerInput input;
  input.q = random({shape.tokens, shape.query_heads, shape.head_dim}) * 2;
  input.k_bias = random({shape.kv_heads, shape.head_dim}) * 3;
  input.k_unrotated = random({shape.tokens, shape.kv_heads, shape.head_dim}) + input.k_bias;
  input.v = random({shape.tokens, shape.kv_heads, shape.head_dim});
  at::Tensor inverse =
      at::pow(10000.0, at::arange(shape.head_dim / 2, at::kFloat) * (-2.0 / double(shape.head_dim)));
  at::Tensor angle = at::arange(shape.tokens, at::kFloat).unsqueeze(1) * inverse;
  input.cos = angle.cos(), input.sin = angle.sin();
  input.k = input.k_unrotated.clone();
  rotate(input.k, input.cos, input.sin);
  return input;
}

/// The layer as it stands once only `tokens` tokens have come.
inline LayerInput prefix_of(const LayerInput& input, int64_t tokens) {
  LayerInput out = input;
  for (at::Tensor* x : {&out.q, &out.k_unrotated, &out.k, &out.v, &out.cos, &out.sin})
    *x = x->narrow(0, 0, tokens).clone();
  return out;
}

}  // namespace kvcost::testing
