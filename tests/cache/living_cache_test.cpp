// A cache that lives from token to token, against one made of lists, against the tiled attention over
// lifetimes, and in chunks.
#include "src/cache/living_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/cache/living_layer.h"
#include "src/cache/registry.h"
#include "src/cache/row_cache.h"
#include "src/harness/measure.h"
#include "tests/support/list_cache.h"
#include "tests/support/random_weights.h"

namespace kvcost {
namespace {

using nlohmann::json;
using namespace testing;

/// Every example of every policy, and with room for exactly `tokens` and for more.
std::vector<json> every_policy(int64_t tokens) {
  std::vector<json> all;
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      json evict = json::parse(knobs);
      evict["policy"] = entry.name;
      all.push_back(evict);
    }
    if (!all.back().contains("capacity")) continue;
    for (int64_t capacity : {tokens, tokens + 7}) {
      all.push_back(all.back());
      all.back()["capacity"] = capacity;
    }
  }
  return all;
}

json with_positions(json evict, const char* positions) {
  evict["positions"] = positions;
  return {{"evict", evict}};
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

/// What a window's queries get from a row.
at::Tensor window_attention(const json& row, const CacheShape& shape, const LayerInput& input) {
  RowCache cache(row, "row");
  cache.begin(shape);
  const CachedTokens tokens = cache(input);
  if (tokens.attended.defined()) return tokens.attended;
  at::Tensor out = at::empty_like(input.q);
  attend(input.q, 0, tokens, out);
  return out;
}

LayerInput chunk_of(const LayerInput& input, int64_t first, int64_t count) {
  LayerInput chunk = input;
  chunk.offset = chunk.first_query = first;
  for (at::Tensor* x : {&chunk.q, &chunk.k_unrotated, &chunk.k, &chunk.v, &chunk.cos, &chunk.sin})
    *x = x->narrow(0, first, count).clone();
  return chunk;
}

at::Tensor fed_in_chunks(LivingCache& cache, const CacheShape& shape, const LayerInput& input, int64_t size) {
  cache.begin(shape);
  std::vector<at::Tensor> out;
  for (int64_t first = 0; first < shape.tokens; first += size) {
    LayerInput chunk = chunk_of(input, first, std::min(size, shape.tokens - first));
    out.push_back(cache(chunk).attended);
    chunk.q.fill_(NAN), chunk.k.fill_(NAN), chunk.v.fill_(NAN);  // the decoder's scratch is used again
  }
  return at::cat(out);
}

std::string error_of(const json& row) {
  try {
    LivingCache cache(row, "rows[2]");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string name_of(const ::testing::TestParamInfo<json>& info) {
  std::string name = info.param["policy"].get<std::string>() + "_" + std::to_string(info.index);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

constexpr int64_t kTokens = 45, kPrompt = 19;

class LivingPolicy : public ::testing::TestWithParam<json> {};
INSTANTIATE_TEST_SUITE_P(Every, LivingPolicy, ::testing::ValuesIn(every_policy(kTokens)), name_of);

}  // namespace

// A decoder fed one token at a time, its caches lists, against a pass over the window.
TEST_P(LivingPolicy, LossEqualsDecodingTokenByToken) {
  for (auto [positions, architecture] :
       {std::pair("original", "qwen3"), {"cache", "qwen3"}, {"cache", "llama"}}) {
    const RandomWeights weights(tiny_config(architecture));
    const Decoder decoder(weights, Dtype::fp32);
    const ModelConfig& c = decoder.config();
    // No id twice: the same key twice is as long, and its last bits would choose for keynorm.
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < kTokens; ++i) ids.push_back(int32_t(i * 37 % 50));
    CacheShape shape = shape_of(c.query_heads, c.kv_heads, c.head_dim, kTokens, kPrompt);
    shape.layers = int(c.layers);

    RowCache row(with_positions(GetParam(), positions), "row");
    WindowMeasurer measurer(decoder, ids, kTokens - kPrompt);
    const Unit unit = measurer.row(row);

    std::vector<at::Tensor> lifetimes(c.layers);
    if (row.looks_ahead()) {
      row.begin(shape);
      Pass whole;
      whole.ids = ids, whole.wanted_to = kTokens;
      whole.cache = [&](const LayerInput& input) {
        CachedTokens tokens = row(input);
        lifetimes[input.layer] = tokens.evicted_at;
        return tokens;
      };
      decoder.hidden(whole);
    }
    std::vector<ListCache> lists;
    const auto policies = row.policies(int(c.layers));
    for (shape.layer = 0; shape.layer < shape.layers; ++shape.layer) {
      lists.emplace_back(policies[shape.layer], shape, positions == std::string("cache"),
                         lifetimes[shape.layer]);
    }
    std::vector<LayerKv> before, after;
    for (int64_t i = 0; i + 1 < kTokens; ++i) {
      Pass pass;
      pass.ids = std::span(ids).first(i + 1);
      pass.start = i, pass.prefix = &before, pass.keep = &after;
      pass.wanted_from = i, pass.wanted_to = i + 1;
      pass.cache = [&](const LayerInput& input) {
        CachedTokens tokens;
        tokens.attended = lists[input.layer].step(input);
        return tokens;
      };
      const at::Tensor state = decoder.hidden(pass);
      before = std::move(after);
      if (i + 1 < kPrompt) continue;
      at::Tensor logits = at::empty({1, c.vocabulary});
      decoder.logits(state, 0, c.vocabulary, logits);
      const double loss = -logits.to(at::kDouble).log_softmax(1)[0][ids[i + 1]].item<double>() / M_LN2;
      ASSERT_NEAR(unit.loss_bits[i + 1 - kPrompt], loss, 1e-4) << positions << ", token " << i + 1;
    }
    double seen = 0;
    for (const ListCache& list : lists) seen += double(list.seen());
    EXPECT_NEAR(unit.tokens_kept, seen / double(shape.layers * c.kv_heads * (kTokens - kPrompt)), 1e-9);
  }
}

TEST_P(LivingPolicy, AttendsAsTheDefinitionSays) {
  for (const CacheShape& shape : several_shapes()) {
    const LayerInput input = random_layer(shape, 51);
    for (bool rounded : {false, true}) {
      json row = with_positions(GetParam(), "cache");
      if (rounded) {
        row["keys"] = {{"codec", "minmax"}, {"bits", 3},          {"axis", "channel"},
                       {"group", 8},        {"groups", "causal"}, {"rope", "before"}};
        row["values"] = {{"codec", "minmax"}, {"bits", 3}, {"axis", "token"}, {"group", 8}};
        row["exact_last"] = 4;
        if (shape.head_dim < 8) row["values"]["group"] = shape.head_dim;  // a token may be no wider
      }
      RowCache cache(row, "row");
      cache.begin(shape);
      const CachedTokens tokens = cache(input);
      const Seen seen = seen_by(tokens, shape);
      for (int64_t i = 0; i < shape.tokens; ++i) {
        for (int64_t h = 0; h < shape.query_heads; ++h) {
          const int64_t kv_head = h / (shape.query_heads / shape.kv_heads);
          const auto want = renumbered_attention(shape, input, tokens, h, i, seen[kv_head][i]);
          const float* got =
              tokens.attended.const_data_ptr<float>() + (i * shape.query_heads + h) * shape.head_dim;
          for (int64_t x = 0; x < shape.head_dim; ++x) ASSERT_NEAR(got[x], want[x], 1e-5) << row << i;
        }
      }
      // Only some queries, as the last layer asks: the same.
      if (cache.needs_all_queries() || shape.tokens < 3) continue;
      LayerInput some = input;
      some.first_query = shape.tokens / 2, some.q = input.q.narrow(0, some.first_query, 1).clone();
      const CachedTokens again = cache(some);
      EXPECT_TRUE(at::equal(again.attended, tokens.attended.narrow(0, some.first_query, 1)));
      EXPECT_EQ(seen_by(again, shape), seen);
    }
  }
}

// The same lifetimes, lived through step by step and read in tiles.
TEST_P(LivingPolicy, SteppingEqualsTiles) {
  for (const CacheShape& shape : several_shapes()) {
    json row = with_positions(GetParam(), "original");
    row["keys"] = {{"codec", "minmax"}, {"bits", 3}, {"axis", "channel"}, {"group", 5}};
    row["values"] = {{"codec", "minmax"}, {"bits", 2}, {"axis", "tensor"}};
    row["exact_last"] = 6;
    const LayerInput input = random_layer(shape, 52);
    RowCache cache(row, "row");
    cache.begin(shape);
    const CachedTokens tokens = cache(input);
    at::Tensor tiled = at::empty_like(input.q);
    attend(input.q, 0, tokens, tiled);
    LivingRules rules;
    rules.lifetimes = tokens.evicted_at;
    RankAngles none;
    EXPECT_LE(apart(LivingLayer(rules, shape, none).feed(input, tokens, nullptr), tiled), 1e-5) << row;
  }
}

TEST_P(LivingPolicy, ChunksOfAnySizeEqualTheWindow) {
  for (const char* positions : {"original", "cache"}) {
    const json row = with_positions(GetParam(), positions);
    if (error_of(row) != "accepted") {
      EXPECT_TRUE(error_of(row).find("can only be run on windows") != std::string::npos) << error_of(row);
      continue;
    }
    LivingCache cache(row, "row");
    for (const CacheShape& shape : several_shapes()) {
      const LayerInput input = random_layer(shape, 53);
      const at::Tensor want = window_attention(row, shape, input);
      for (int64_t size : {int64_t{1}, int64_t{3}, int64_t{16}, shape.tokens}) {
        EXPECT_LE(apart(fed_in_chunks(cache, shape, input, size), want), 1e-5)
            << row << " chunks of " << size;
      }
      RowCache whole(row, "row");
      whole.begin(shape);
      const Seen seen = seen_by(whole(input), shape);
      const LivingReport report = cache.report();
      EXPECT_DOUBLE_EQ(report.tokens_kept, whole.report().tokens_kept);
      EXPECT_EQ(report.evicted, whole.report().evicted);
      size_t most = 0;
      for (const auto& head : seen) {
        for (const Tokens& kept : head) most = std::max(most, kept.size());
      }
      EXPECT_EQ(report.most_tokens, int64_t(most));
    }
  }
}

// Neighbours stay neighbours: only differences of positions matter.
TEST(LivingCache, AWindowDoesNotCareForPositions) {
  const CacheShape shape = shape_of(6, 2, 16, 97, 20);
  const LayerInput input = random_layer(shape, 54);
  for (int64_t capacity : {1, 2, 9, 97, 120}) {
    const json evict = {{"policy", "window"}, {"capacity", capacity}};
    EXPECT_LE(apart(window_attention(with_positions(evict, "cache"), shape, input),
                    window_attention(with_positions(evict, "original"), shape, input)),
              1e-5);
  }
  const json sinks = {{"policy", "sinks"}, {"capacity", 9}};
  EXPECT_GT(apart(window_attention(with_positions(sinks, "cache"), shape, input),
                  window_attention(with_positions(sinks, "original"), shape, input)),
            1e-2);
}

TEST(LivingCache, HoldsNoMoreThanItKeeps) {
  CacheShape shape = shape_of(4, 2, 16, 1500, 1000);
  const LayerInput input = random_layer(shape, 55);
  for (const char* policy : {"window", "sinks", "h2o", "tova", "keydiff"}) {
    for (const char* positions : {"original", "cache"}) {
      LivingCache cache(with_positions({{"policy", policy}, {"capacity", 16}}, positions), "row");
      cache.begin(shape);
      int64_t bytes = 0;
      for (int64_t first = 0; first < shape.tokens; first += 50) {
        cache(chunk_of(input, first, 50));
        if (first == 50) bytes = cache.report().memory_bytes;
      }
      const LivingReport report = cache.report();
      EXPECT_EQ(report.most_tokens, 16) << policy;
      EXPECT_EQ(report.tokens_held, 2 * 15) << policy;  // the last query's eviction included
      EXPECT_EQ(report.memory_bytes, bytes) << policy;
      EXPECT_LT(report.memory_bytes, 2 * 16 * (3 * 16 + 4 + 8) * 4 * 2) << policy;
      EXPECT_TRUE(report.evicted);
    }
  }
}

// More tokens than it has room for at first.
TEST(LivingCache, GrowsWithWhatNothingBounds) {
  const CacheShape shape = shape_of(2, 1, 4, 1500, 1200);
  const LayerInput input = random_layer(shape, 56);
  for (const json& evict : {json{{"policy", "full"}}, json{{"policy", "snapkv"}, {"capacity", 900}}}) {
    for (const char* positions : {"original", "cache"}) {
      const json row = with_positions(evict, positions);
      LivingCache cache(row, "row");
      EXPECT_LE(apart(fed_in_chunks(cache, shape, input, 400), window_attention(row, shape, input)), 1e-5)
          << row;
    }
  }
}

TEST(LivingCache, LayersMayHaveTheirOwnCapacity) {
  CacheShape shape = shape_of(4, 2, 8, 60, 30);
  shape.layers = 3;
  const json row = with_positions(
      {{"policy", "sinks"}, {"capacity", 10}, {"sinks", 2}, {"budgets", "pyramid"}, {"beta", 2}}, "cache");
  LivingCache cache(row, "row");
  RowCache whole(row, "row");
  cache.begin(shape), whole.begin(shape);
  for (int layer = 0; layer < 3; ++layer) {
    LayerInput input = random_layer(shape, 57 + layer);
    input.layer = layer;
    EXPECT_LE(apart(cache(input).attended, whole(input).attended), 1e-5);
  }
  EXPECT_EQ(cache.report().tokens_held, 2 * (3 * 10 - 3));
  EXPECT_DOUBLE_EQ(cache.report().tokens_kept, whole.report().tokens_kept);
}

TEST(LivingCache, FeedsADecoderInChunks) {
  const RandomWeights weights(tiny_config("qwen2"));
  const Decoder decoder(weights, Dtype::fp32);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < 700; ++i) ids.push_back(int32_t((i * 37 + i * i) % 50));  // beyond max_positions
  CacheShape shape = shape_of(6, 2, 4, 700, 1);
  shape.layers = 3;
  for (const char* policy : {"sinks", "h2o"}) {
    for (const char* positions : {"original", "cache"}) {
      const json row = with_positions({{"policy", policy}, {"capacity", 12}}, positions);
      RowCache whole(row, "row");
      whole.begin(shape);
      Pass pass;
      pass.ids = ids, pass.wanted_to = 700, pass.cache = whole.function();
      const at::Tensor want = decoder.hidden(pass);
      LivingCache cache(row, "row");
      cache.begin(shape);
      std::vector<at::Tensor> got;
      for (int64_t first = 0; first < 700; first += 64) {
        Pass chunk;
        chunk.ids = std::span(ids).subspan(first, std::min<int64_t>(64, 700 - first));
        chunk.offset = first, chunk.wanted_to = int64_t(chunk.ids.size()), chunk.cache = cache.function();
        got.push_back(decoder.hidden(chunk));
      }
      EXPECT_LE(apart(at::cat(got), want), 2e-4) << row;
    }
  }
}

TEST(LivingCache, RefusesWhatAStreamCannotDo) {
  auto row = [](const char* evict) { return json{{"evict", json::parse(evict)}}; };
  EXPECT_EQ(error_of(row(R"({"policy": "oracle", "capacity": 9})")),
            "rows[2].evict.policy: found \"oracle\", which looks ahead, expected one that a stream can live "
            "by: it can only be run on windows");
  EXPECT_EQ(error_of(row(R"({"policy": "expected", "capacity": 9, "sinks": 1})")),
            "rows[2].evict.policy: found \"expected\", which needs every past query, expected one that a "
            "stream can live by: it can only be run on windows");
  EXPECT_EQ(error_of(json::parse(R"({"values": {"codec": "minmax", "bits": 2, "axis": "tensor"}})")),
            "rows[2].values: found a codec, expected none: a stream's cache is not rounded");
  EXPECT_EQ(error_of(row(R"({"policy": "sink", "capacity": 9})")),
            "rows[2].evict.policy: unknown 'sink', did you mean 'sinks'?");
  EXPECT_EQ(error_of(json::object()), "accepted");
}

TEST(LivingCache, RefusesChunksThatDoNotFollow) {
  const CacheShape shape = small_shape();
  const LayerInput input = random_layer(shape, 58);
  LivingCache cache({{"evict", {{"policy", "h2o"}, {"capacity", 9}, {"positions", "cache"}}}}, "row");
  cache.begin(shape);
  EXPECT_THROW(cache(chunk_of(input, 3, 4)), Failure);
  cache(chunk_of(input, 0, 4));
  EXPECT_THROW(cache(chunk_of(input, 0, 4)), Failure);
  LayerInput missing = chunk_of(input, 4, 4);
  missing.first_query = 5, missing.q = missing.q.narrow(0, 1, 3).clone();
  EXPECT_THROW(cache(missing), Failure);
}

}  // namespace kvcost
