#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>

namespace kvcost {

/// "Never": larger than any position.
inline constexpr int32_t kNever = INT32_MAX;

/// One layer's projections, as attention meets them. All fp32, contiguous; only good until the call that is
/// handed them returns.
struct LayerInput {
  int layer = 0;
  /// Position of the first row of k, v, cos and sin: 0, or where a chunk of a longer text begins.
  int64_t offset = 0;
  /// Position of q's first row: queries are positions first_query .. first_query + queries - 1.
  int64_t first_query = 0;
  at::Tensor q;            ///< [queries, query_heads, head_dim] after RoPE
  at::Tensor k_unrotated;  ///< [tokens, kv_heads, head_dim] before RoPE
  at::Tensor k;            ///< [tokens, kv_heads, head_dim] after RoPE
  at::Tensor v;            ///< [tokens, kv_heads, head_dim]
  at::Tensor k_bias;       ///< [kv_heads, head_dim], part of k_unrotated; undefined if the model has none
  at::Tensor cos, sin;     ///< [tokens, head_dim / 2] of the rotary embedding
};

/// What the queries of one layer may read. Undefined `*_rounded` = nothing is rounded; undefined lifetimes =
/// never. Query i sees token j when j <= i < evicted_at[j], and reads it exact when i < rounded_at[j], else
/// rounded.
struct CachedTokens {
  at::Tensor k, v;                        ///< exact, [tokens, kv_heads, head_dim] fp32
  at::Tensor k_rounded, v_rounded;        ///< same shape
  at::Tensor evicted_at;                  ///< [kv_heads, tokens] int32
  at::Tensor k_rounded_at, v_rounded_at;  ///< [kv_heads, tokens] int32; undefined with *_rounded = 0 (always)
  at::Tensor k_rounded_unrotated;         ///< k_rounded before RoPE, if keys are rounded there
  /// [queries, query_heads, head_dim]: what the queries got, where the cache attended by itself. If defined,
  /// it stands in place of attend(), which could not know what the cache did to positions.
  at::Tensor attended;
};

/// Softmax attention of causal queries over cached tokens, tile by tile, skipping what no query of a tile
/// sees. q [queries, query_heads, head_dim], first row at position first_query; out like q. Query head h
/// reads KV head h / (query_heads / kv_heads). Every query must see at least one token. Scale
/// 1/sqrt(head_dim).
void attend(const at::Tensor& q, int64_t first_query, const CachedTokens& cache, at::Tensor& out);

/// Rotate-half RoPE in place: x [tokens, heads, head_dim]; cos, sin [tokens, head_dim / 2].
void rotate(at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

/// Decides what one layer's queries read. The default (empty) is the full cache.
using CacheFunction = std::function<CachedTokens(const LayerInput&)>;

}  // namespace kvcost
