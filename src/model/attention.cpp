#include "src/model/attention.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "src/base/error.h"
#include "src/model/softmax.h"

// BLAS, from LibTorch: column major, every argument by address.
extern "C" void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);

namespace kvcost {
namespace {

constexpr int kKeysPerChunk = 256;
constexpr int kRowsPerTile = 224;  // query heads of one KV head times queries; scores of a chunk stay in L2

/// c [m, n] = a [m, k] * b [n, k]^T
void gemm_nt(int m, int n, int k, const float* a, int lda, const float* b, int ldb, float* c, int ldc) {
  const float one = 1, zero = 0;
  sgemm_("T", "N", &n, &m, &k, &one, b, &ldb, a, &lda, &zero, c, &ldc);
}

/// c [m, n] += a [m, k] * b [k, n]
void gemm_nn_add(int m, int n, int k, const float* a, int lda, const float* b, int ldb, float* c, int ldc) {
  const float one = 1;
  sgemm_("N", "N", &n, &m, &k, &one, b, &ldb, a, &lda, &one, c, &ldc);
}

struct Lifetime {
  int32_t position, evicted_at, k_rounded_at, v_rounded_at;
};

/// Keys of one chunk, in a form the loops below can vectorize over.
struct Chunk {
  int32_t position[kKeysPerChunk], evicted_at[kKeysPerChunk];
  int32_t k_rounded_at[kKeysPerChunk], v_rounded_at[kKeysPerChunk];
  int count = 0;

  void push(const Lifetime& life) {
    position[count] = life.position;
    evicted_at[count] = life.evicted_at;
    k_rounded_at[count] = life.k_rounded_at;
    v_rounded_at[count] = life.v_rounded_at;
    ++count;
  }
};

/// Everything one tile (one KV head, consecutive queries) works in; one per thread, reused.
struct Workspace {
  std::vector<float> q, out, scores, scores_rounded, k, k_rounded, v, v_rounded, max, sum;
  std::vector<Lifetime> plain, mixed;
  Chunk chunk;
};

struct Problem {
  const float *q, *k, *v, *k_rounded, *v_rounded;  // the rounded ones equal the exact ones where undefined
  const int32_t *evicted_at, *k_rounded_at, *v_rounded_at;  // nullptr: never, and always
  float* out;
  int64_t first_query, queries, tokens;
  int query_heads, kv_heads, head_dim, group;
  int queries_per_tile;
};

Lifetime lifetime_of(const Problem& p, int64_t row, int64_t j) {
  Lifetime life{static_cast<int32_t>(j), kNever, kNever, kNever};
  if (p.evicted_at != nullptr) life.evicted_at = p.evicted_at[row + j];
  if (p.k_rounded != p.k) life.k_rounded_at = p.k_rounded_at != nullptr ? p.k_rounded_at[row + j] : 0;
  if (p.v_rounded != p.v) life.v_rounded_at = p.v_rounded_at != nullptr ? p.v_rounded_at[row + j] : 0;
  return life;
}

/// Rows of keys or values of a chunk, as a matrix with leading dimension *stride: in place if they already
/// are consecutive rows of one source, else copied to `buffer`.
template <class SourceOf>
const float* rows_of(const Chunk& chunk, const Problem& p, int head, SourceOf source_of, float* buffer,
                     int* stride) {
  const int64_t token = int64_t(p.kv_heads) * p.head_dim;
  bool in_place = true;
  for (int c = 1; c < chunk.count && in_place; ++c) {
    in_place = chunk.position[c] == chunk.position[0] + c && source_of(c) == source_of(0);
  }
  if (in_place) {
    *stride = static_cast<int>(token);
    return source_of(0) + chunk.position[0] * token + head * p.head_dim;
  }
  for (int c = 0; c < chunk.count; ++c) {
    const float* row = source_of(c) + chunk.position[c] * token + head * p.head_dim;
    std::copy(row, row + p.head_dim, buffer + int64_t(c) * p.head_dim);
  }
  *stride = p.head_dim;
  return buffer;
}

/// Adds one chunk of keys to a tile. `mixed`: some query of the tile reads a key exact and another one
/// rounded.
void add_chunk(const Problem& p, Workspace& w, int head, int64_t q0, int64_t q1, bool mixed) {
  const Chunk& chunk = w.chunk;
  const int count = chunk.count, d = p.head_dim, queries = static_cast<int>(q1 - q0 + 1);
  const int rows = queries * p.group;
  int k_stride, v_stride;
  // In a chunk that is not mixed the tile's first query speaks for all of them.
  const float* k = rows_of(
      chunk, p, head, [&](int c) { return mixed || q0 < chunk.k_rounded_at[c] ? p.k : p.k_rounded; },
      w.k.data(), &k_stride);
  const float* v = rows_of(
      chunk, p, head, [&](int c) { return mixed || q0 < chunk.v_rounded_at[c] ? p.v : p.v_rounded; },
      w.v.data(), &v_stride);
  gemm_nt(rows, count, d, w.q.data(), d, k, k_stride, w.scores.data(), kKeysPerChunk);
  bool mixed_k = mixed && p.k_rounded != p.k, mixed_v = mixed && p.v_rounded != p.v;
  if (mixed_k) {
    int stride;
    const float* rounded = rows_of(
        chunk, p, head, [&](int) { return p.k_rounded; }, w.k_rounded.data(), &stride);
    gemm_nt(rows, count, d, w.q.data(), d, rounded, stride, w.scores_rounded.data(), kKeysPerChunk);
  }
  bool all_seen = true;
  for (int c = 0; c < count && all_seen; ++c) {
    all_seen = chunk.position[c] <= q0 && chunk.evicted_at[c] > q1;
  }
  for (int row = 0; row < rows; ++row) {
    int i = static_cast<int>(q0 + row % queries);
    float* scores = w.scores.data() + int64_t(row) * kKeysPerChunk;
    float* rounded = w.scores_rounded.data() + int64_t(row) * kKeysPerChunk;
    if (mixed_k) take_rounded(scores, rounded, chunk.k_rounded_at, count, i);
    if (!all_seen) hide(scores, chunk.position, chunk.evicted_at, count, i);
    softmax_step(scores, count, &w.max[row], &w.sum[row], w.out.data() + int64_t(row) * d, d);
    if (mixed_v) split_weights(scores, rounded, chunk.v_rounded_at, count, i);
  }
  gemm_nn_add(rows, d, count, w.scores.data(), kKeysPerChunk, v, v_stride, w.out.data(), d);
  if (mixed_v) {
    int stride;
    const float* rounded = rows_of(
        chunk, p, head, [&](int) { return p.v_rounded; }, w.v_rounded.data(), &stride);
    gemm_nn_add(rows, d, count, w.scores_rounded.data(), kKeysPerChunk, rounded, stride, w.out.data(), d);
  }
}

void add_all(const Problem& p, Workspace& w, const std::vector<Lifetime>& keys, int head, int64_t q0,
             int64_t q1, bool mixed) {
  for (size_t at = 0; at < keys.size();) {
    w.chunk.count = 0;
    while (at < keys.size() && w.chunk.count < kKeysPerChunk) w.chunk.push(keys[at++]);
    add_chunk(p, w, head, q0, q1, mixed);
  }
}

void attend_tile(const Problem& p, Workspace& w, int head, int64_t q0, int64_t q1) {
  const int d = p.head_dim, queries = static_cast<int>(q1 - q0 + 1);
  const float scale = 1.4426950408889634f / std::sqrt(static_cast<float>(d));  // scores in powers of two
  for (int g = 0; g < p.group; ++g) {
    for (int i = 0; i < queries; ++i) {
      const float* from = p.q + ((q0 - p.first_query + i) * p.query_heads + int64_t(head) * p.group + g) * d;
      float* to = w.q.data() + (int64_t(g) * queries + i) * d;
      for (int x = 0; x < d; ++x) to[x] = from[x] * scale;
    }
  }
  const int rows = queries * p.group;
  std::fill_n(w.out.begin(), int64_t(rows) * d, 0.0f);
  std::fill_n(w.max.begin(), rows, kHiddenScore);
  std::fill_n(w.sum.begin(), rows, 0.0f);

  w.plain.clear();
  w.mixed.clear();
  for (int64_t j = 0; j <= q1; ++j) {
    Lifetime life = lifetime_of(p, head * p.tokens, j);
    int64_t first_seen = std::max(q0, j), last_seen = std::min<int64_t>(q1, int64_t(life.evicted_at) - 1);
    if (first_seen > last_seen) continue;
    auto changes = [&](int32_t rounded_at) { return rounded_at > q0 && rounded_at <= q1; };
    (changes(life.k_rounded_at) || changes(life.v_rounded_at) ? w.mixed : w.plain).push_back(life);
  }
  add_all(p, w, w.plain, head, q0, q1, false);
  add_all(p, w, w.mixed, head, q0, q1, true);

  for (int g = 0; g < p.group; ++g) {
    for (int i = 0; i < queries; ++i) {
      int row = g * queries + i;
      float inverse = 1.0f / w.sum[row];
      const float* from = w.out.data() + int64_t(row) * d;
      float* to = p.out + ((q0 - p.first_query + i) * p.query_heads + int64_t(head) * p.group + g) * d;
      for (int x = 0; x < d; ++x) to[x] = from[x] * inverse;
    }
  }
}

void check(const at::Tensor& t, const char* what, at::IntArrayRef shape, at::ScalarType type) {
  if (t.sizes() != shape || t.scalar_type() != type || !t.is_contiguous()) {
    throw Failure(std::string("attention: ") + what + " has an unexpected shape, type or layout");
  }
}

}  // namespace

void attend(const at::Tensor& q, int64_t first_query, const CachedTokens& cache, at::Tensor& out) {
  const int64_t tokens = cache.k.size(0), kv_heads = cache.k.size(1), head_dim = cache.k.size(2);
  const int64_t queries = q.size(0), query_heads = q.size(1);
  if (queries == 0) return;
  const std::array<int64_t, 3> kv_shape{tokens, kv_heads, head_dim}, q_shape{queries, query_heads, head_dim};
  const std::array<int64_t, 2> life_shape{kv_heads, tokens};
  check(q, "q", q_shape, at::kFloat);
  check(out, "out", q_shape, at::kFloat);
  check(cache.k, "k", kv_shape, at::kFloat);
  check(cache.v, "v", kv_shape, at::kFloat);
  auto rounded = [&](const at::Tensor& t, const at::Tensor& exact, const char* what) {
    if (!t.defined()) return exact.const_data_ptr<float>();
    check(t, what, kv_shape, at::kFloat);
    return t.const_data_ptr<float>();
  };
  auto lifetimes = [&](const at::Tensor& t, const char* what) -> const int32_t* {
    if (!t.defined()) return nullptr;
    check(t, what, life_shape, at::kInt);
    return t.const_data_ptr<int32_t>();
  };
  Problem p;
  p.q = q.const_data_ptr<float>();
  p.k = cache.k.const_data_ptr<float>();
  p.v = cache.v.const_data_ptr<float>();
  p.k_rounded = rounded(cache.k_rounded, cache.k, "k_rounded");
  p.v_rounded = rounded(cache.v_rounded, cache.v, "v_rounded");
  p.evicted_at = lifetimes(cache.evicted_at, "evicted_at");
  p.k_rounded_at = lifetimes(cache.k_rounded_at, "k_rounded_at");
  p.v_rounded_at = lifetimes(cache.v_rounded_at, "v_rounded_at");
  p.out = out.mutable_data_ptr<float>();
  p.first_query = first_query;
  p.queries = queries;
  p.tokens = tokens;
  p.query_heads = static_cast<int>(query_heads);
  p.kv_heads = static_cast<int>(kv_heads);
  p.head_dim = static_cast<int>(head_dim);
  p.group = p.query_heads / p.kv_heads;
  if (p.group * p.kv_heads != p.query_heads || first_query < 0 || first_query + queries > tokens) {
    throw Failure("attention: heads or positions do not fit");
  }
  p.queries_per_tile = std::max(8, kRowsPerTile / p.group / 8 * 8);

  // Tiles start at multiples of queries_per_tile, wherever first_query is. The longest come first.
  const int64_t first_tile = first_query / p.queries_per_tile;
  const int64_t tiles = (first_query + queries - 1) / p.queries_per_tile - first_tile + 1;
  std::atomic<int64_t> next{0};
#pragma omp parallel
  {
    thread_local Workspace w;
    const size_t rows = size_t(p.queries_per_tile) * p.group, d = head_dim;
    w.q.resize(rows * d), w.out.resize(rows * d), w.max.resize(rows), w.sum.resize(rows);
    w.scores.resize(rows * kKeysPerChunk), w.scores_rounded.resize(rows * kKeysPerChunk);
    for (auto* buffer : {&w.k, &w.k_rounded, &w.v, &w.v_rounded}) buffer->resize(kKeysPerChunk * d);
    for (int64_t item = next++; item < tiles * p.kv_heads; item = next++) {
      int64_t tile = first_tile + tiles - 1 - item / p.kv_heads;
      int64_t q0 = std::max(first_query, tile * p.queries_per_tile);
      int64_t q1 = std::min(first_query + queries, (tile + 1) * p.queries_per_tile) - 1;
      attend_tile(p, w, static_cast<int>(item % p.kv_heads), q0, q1);
    }
  }
}

}  // namespace kvcost
