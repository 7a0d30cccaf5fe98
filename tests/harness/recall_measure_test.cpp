// A case against a decoder that is fed one token at a time, with caches that really drop tokens until the
// decision point and then nothing.
#include "src/harness/recall_measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/kept_tokens.h"
#include "tests/support/random_weights.h"

namespace kvcost {
namespace {

using namespace testing;
using nlohmann::json;

RecallCase small_case() {
  RecallCase made;
  std::minstd_rand random(11);
  for (int i = 0; i < 52; ++i) made.ids.push_back(static_cast<int32_t>(random() % 50));
  made.context_end = 24;
  made.first.question_end = 31, made.first.answer_begin = 34, made.first.answer_end = 36;
  made.follow_up.question_end = 45, made.follow_up.answer_begin = 49, made.follow_up.answer_end = 52;
  return made;
}

/// One layer's caches, a list of tokens for each KV head, and what a policy remembers of each token.
struct LayerLife {
  std::vector<Tokens> kept;
  std::vector<std::vector<double>> memory;  ///< [kv_heads][tokens]
};

/// Which tokens a KV head gives up after query i's attention; weights: mean over its query heads, by slot.
using GiveUp = std::function<Tokens(int64_t i, const Tokens& kept, const std::vector<double>& weights,
                                    std::vector<double>& memory)>;

/// The whole case token by token. GiveUp is asked until `prompt` tokens have come. Logits [tokens,
/// vocabulary].
at::Tensor step_by_step(const Decoder& decoder, const RecallCase& of, int64_t prompt, const GiveUp& give_up,
                        bool renumbered) {
  const ModelConfig& c = decoder.config();
  const CacheShape shape =
      shape_of(c.query_heads, c.kv_heads, c.head_dim, static_cast<int64_t>(of.ids.size()), prompt);
  const auto tokens = static_cast<int64_t>(of.ids.size()), group = c.query_heads / c.kv_heads;
  std::vector<LayerLife> life(c.layers);
  for (LayerLife& layer : life) {
    layer.kept.resize(c.kv_heads);
    layer.memory.assign(c.kv_heads, std::vector<double>(tokens, 0.0));
  }
  at::Tensor logits = at::empty({tokens, c.vocabulary});
  std::vector<LayerKv> before, after;
  for (int64_t i = 0; i < tokens; ++i) {
    Pass pass;
    pass.ids = std::span(of.ids).first(i + 1);
    pass.start = i, pass.prefix = &before, pass.keep = &after;
    pass.wanted_from = i, pass.wanted_to = i + 1;
    pass.cache = [&](const LayerInput& input) {
      CachedTokens cache;
      cache.k = input.k, cache.v = input.v;
      cache.evicted_at = at::zeros({c.kv_heads, i + 1}, at::kInt);
      at::Tensor attended = at::empty_like(input.q);
      LayerLife& layer = life[input.layer];
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        Tokens& kept = layer.kept[h];
        kept.push_back(i);
        for (int64_t j : kept) cache.evicted_at[h][j] = kNever;
        const PlainLayer plain(shape, input, cache, renumbered);
        for (int64_t g = 0; g < group && renumbered; ++g) {
          const auto got = renumbered_attention(shape, input, cache, h * group + g, i, kept);
          for (int64_t x = 0; x < c.head_dim; ++x) attended[0][h * group + g][x] = got[x];
        }
        if (i >= prompt) continue;
        const std::vector<double> weights = plain.mean_weights(h, 1, i, kept);
        for (int64_t gone : give_up(i, kept, weights, layer.memory[h])) std::erase(kept, gone);
      }
      if (renumbered) cache.attended = attended;
      return cache;
    };
    at::Tensor state = decoder.hidden(pass), row = at::empty({1, c.vocabulary});
    decoder.logits(state, 0, c.vocabulary, row);
    logits[i].copy_(row[0]);
    before = std::move(after);
  }
  return logits;
}

void expect_scores(const Unit& unit, const RecallCase& of, const at::Tensor& logits,
                   const std::string& what) {
  const at::Tensor log_p = logits.to(at::kDouble).log_softmax(1);
  size_t n = 0;
  for (auto [begin, end] : {std::pair(of.first.answer_begin, of.first.answer_end),
                            std::pair(of.follow_up.answer_begin, of.follow_up.answer_end)}) {
    for (int64_t t = begin; t < end; ++t, ++n) {
      ASSERT_LT(n, unit.loss_bits.size());
      EXPECT_NEAR(unit.loss_bits[n], -log_p[t - 1][of.ids[t]].item<double>() / std::log(2.0), 1e-4) << what;
      EXPECT_EQ(unit.is_top1[n] != 0, logits[t - 1].argmax().item<int64_t>() == of.ids[t]) << what;
    }
  }
  EXPECT_EQ(n, unit.loss_bits.size());
}

struct Form {
  json evict;
  GiveUp give_up;  ///< before the prompt's last query; at that query only if `at_prompt_end`
};

Tokens nothing() { return {}; }

/// Policies that make room for the next token: after the prompt's last query there is none.
GiveUp per_token(int64_t prompt, GiveUp give_up) {
  return [prompt, give_up](int64_t i, const Tokens& kept, const std::vector<double>& weights,
                           std::vector<double>& memory) {
    return i == prompt - 1 ? nothing() : give_up(i, kept, weights, memory);
  };
}

constexpr size_t kCapacity = 10;

GiveUp window_of(int64_t prompt) {
  return per_token(prompt, [](int64_t, const Tokens& kept, const std::vector<double>&, std::vector<double>&) {
    return kept.size() < kCapacity ? nothing() : Tokens{kept.front()};
  });
}

GiveUp heavy_hitters(int64_t prompt) {
  return per_token(prompt, [](int64_t, const Tokens& kept, const std::vector<double>& weights,
                              std::vector<double>& memory) {
    std::vector<double> badness;
    for (size_t s = 0; s < kept.size(); ++s) badness.push_back(-(memory[kept[s]] += weights[s]));
    return kept.size() < kCapacity ? nothing() : worst(kept, badness, kCapacity / 2, 0);
  });
}

/// SnapKV with one query that votes and no pool: the mean weights of the prompt's last query.
GiveUp one_vote(int64_t prompt) {
  return [prompt](int64_t i, const Tokens& kept, const std::vector<double>& weights, std::vector<double>&) {
    if (i != prompt - 1) return nothing();
    Tokens order(kept.begin(), kept.end() - 1);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return weights[a] < weights[b]; });
    order.resize(kept.size() - kCapacity);
    return order;
  };
}

}  // namespace

TEST(RecallMeasure, EqualsDecodingTokenByToken) {
  const RecallCase of = small_case();
  const std::vector<int64_t> points = {of.context_end, of.first.question_end, of.follow_up.question_end};
  const struct {
    json evict;
    GiveUp (*give_up)(int64_t);
  } forms[] = {
      {{{"policy", "window"}, {"capacity", kCapacity}}, window_of},
      {{{"policy", "h2o"}, {"capacity", kCapacity}}, heavy_hitters},
      {{{"policy", "snapkv"}, {"capacity", kCapacity}, {"observe", 1}, {"kernel", 1}}, one_vote},
      {{{"policy", "h2o"}, {"capacity", kCapacity}, {"positions", "cache"}}, heavy_hitters},
      {{{"policy", "snapkv"}, {"capacity", kCapacity}, {"observe", 1}, {"kernel", 1}, {"positions", "cache"}},
       one_vote},
  };
  for (const char* architecture : {"llama", "qwen2"}) {
    RandomWeights weights(tiny_config(architecture));
    Decoder decoder(weights, Dtype::fp32);
    CaseMeasurer measurer(decoder, of);
    const at::Tensor full = step_by_step(decoder, of, 0, {}, false);
    expect_scores(measurer.full(), of, full, "full cache");
    EXPECT_FALSE(measurer.full().evicted);
    for (const auto& form : forms) {
      RowSpec spec;
      spec.evict = form.evict, spec.path = "row";
      RecallRowCache row(spec);
      const std::vector<Unit> units = measurer.row(row, points);
      ASSERT_EQ(units.size(), points.size());
      for (size_t p = 0; p < points.size(); ++p) {
        const std::string what =
            fmt::format("{} {} decided at {}", architecture, form.evict.dump(), points[p]);
        const at::Tensor logits =
            step_by_step(decoder, of, points[p], form.give_up(points[p]), form.evict.contains("positions"));
        expect_scores(units[p], of, logits, what);
        EXPECT_EQ(units[p].tokens_kept, kCapacity) << what;
        EXPECT_TRUE(units[p].evicted) << what;
        EXPECT_GT((logits - full).abs().max().item<double>(), 1e-3) << what << ": evicting changes nothing";
        // Alone or in any order, the same.
        const int64_t one[] = {points[p]};
        const Unit alone = measurer.row(row, one).at(0);
        for (size_t t = 0; t < alone.loss_bits.size(); ++t) {
          EXPECT_NEAR(alone.loss_bits[t], units[p].loss_bits[t], 1e-4) << what;
        }
      }
    }
  }
}

TEST(RecallMeasure, RowsThatRoundOrDoNothing) {
  const RecallCase of = small_case();
  RandomWeights weights(tiny_config("qwen2"));
  Decoder decoder(weights, Dtype::fp32);
  CaseMeasurer measurer(decoder, of);
  const int64_t points[] = {of.context_end};
  RowSpec wide;
  wide.evict = {{"policy", "h2o"}, {"capacity", 1000}};
  RecallRowCache nothing_evicted(wide);
  const Unit same = measurer.row(nothing_evicted, points).at(0);
  EXPECT_FALSE(same.evicted);
  EXPECT_EQ(same.tokens_kept, double(of.context_end));
  for (size_t t = 0; t < same.loss_bits.size(); ++t) {
    EXPECT_NEAR(same.loss_bits[t], measurer.full().loss_bits[t], 1e-4);
  }
  RowSpec rounded;
  rounded.keys = {{"codec", "minmax"}, {"bits", 2}, {"axis", "token"}, {"group", 4}};
  RecallRowCache codec(rounded);
  const Unit changed = measurer.row(codec, points).at(0);
  EXPECT_TRUE(changed.changed);
  EXPECT_FALSE(changed.evicted);
  EXPECT_NE(changed.loss_bits, measurer.full().loss_bits);
}

}  // namespace kvcost
