#include "src/model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/error.h"
#include "tests/support/random_weights.h"

namespace kvcost {
namespace {

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + eps) * weight;
}

at::Tensor rotary_frequencies(const ModelConfig& c) {
  const RopeConfig& r = c.rope;
  at::Tensor frequency = at::pow(r.theta, -at::arange(0, c.head_dim, 2, at::kDouble) / double(c.head_dim));
  if (r.type != "llama3") return frequency;
  at::Tensor wave = 2 * M_PI / frequency;
  at::Tensor ramp = (double(r.original_max_positions) / wave - r.low_freq_factor) /
                    (r.high_freq_factor - r.low_freq_factor);
  ramp = ramp.clamp(0, 1);
  return (1 - ramp) * frequency / r.factor + ramp * frequency;
}

/// The textbook decoder on whole matrices in double; logits [tokens, vocabulary].
at::Tensor reference_logits(const RandomWeights& w, const std::vector<int32_t>& ids) {
  const ModelConfig& c = w.config();
  const int64_t tokens = ids.size(), d = c.head_dim, group = c.query_heads / c.kv_heads;
  auto weight = [&](const std::string& name) { return w.tensor(name).to(at::kDouble); };
  at::Tensor angle = at::outer(at::arange(tokens, at::kDouble), rotary_frequencies(c));
  at::Tensor cos = at::cat({angle.cos(), angle.cos()}, 1), sin = at::cat({angle.sin(), angle.sin()}, 1);
  auto rope = [&](const at::Tensor& x) {
    at::Tensor turned = at::cat({-x.narrow(2, d / 2, d / 2), x.narrow(2, 0, d / 2)}, 2);
    return x * cos + turned * sin;
  };
  at::Tensor x = weight("model.embed_tokens.weight").index_select(0, at::tensor(ids).to(at::kLong));
  at::Tensor later = at::ones({tokens, tokens}, at::kBool).triu(1);
  for (int64_t l = 0; l < c.layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    at::Tensor in = norm(x, weight(layer + "input_layernorm.weight"), c.norm_eps);
    auto project = [&](const std::string& name, int64_t heads) {
      at::Tensor y = in.matmul(weight(layer + "self_attn." + name + "_proj.weight").t());
      if (c.qkv_bias) y = y + weight(layer + "self_attn." + name + "_proj.bias");
      y = y.view({tokens, heads, d}).transpose(0, 1);
      return c.qk_norm && name != "v"
                 ? norm(y, weight(layer + "self_attn." + name + "_norm.weight"), c.norm_eps)
                 : y;
    };
    at::Tensor q = rope(project("q", c.query_heads));
    at::Tensor k = rope(project("k", c.kv_heads)).repeat_interleave(group, 0);
    at::Tensor v = project("v", c.kv_heads).repeat_interleave(group, 0);
    at::Tensor scores = q.matmul(k.transpose(1, 2)) / std::sqrt(double(d));
    at::Tensor out = scores.masked_fill(later, -INFINITY).softmax(-1).matmul(v);
    x = x + out.transpose(0, 1).reshape({tokens, -1}).matmul(weight(layer + "self_attn.o_proj.weight").t());
    in = norm(x, weight(layer + "post_attention_layernorm.weight"), c.norm_eps);
    at::Tensor gate = at::silu(in.matmul(weight(layer + "mlp.gate_proj.weight").t()));
    at::Tensor up = in.matmul(weight(layer + "mlp.up_proj.weight").t());
    x = x + (gate * up).matmul(weight(layer + "mlp.down_proj.weight").t());
  }
  x = norm(x, weight("model.norm.weight"), c.norm_eps);
  return x.matmul(weight(c.tied_output ? "model.embed_tokens.weight" : "lm_head.weight").t());
}

class DecoderTest : public testing::TestWithParam<std::string> {
 protected:
  DecoderTest() : weights(tiny_config(GetParam())), decoder(weights, Dtype::fp32) {
    for (int i = 0; i < 45; ++i) ids.push_back((i * 37 + i * i) % 50);
  }
  Pass pass(int64_t from, int64_t to) const {
    Pass p;
    p.ids = ids;
    p.wanted_from = from, p.wanted_to = to;
    return p;
  }
  at::Tensor logits(const at::Tensor& hidden) const {
    at::Tensor out = at::empty({hidden.size(0), 50});
    decoder.logits(hidden, 0, 50, out);
    return out;
  }
  RandomWeights weights;
  Decoder decoder;
  std::vector<int32_t> ids;
};

TEST_P(DecoderTest, EqualsTheTextbookDecoder) {
  at::Tensor expected = reference_logits(weights, ids).narrow(0, 20, 24);
  at::Tensor found = logits(decoder.hidden(pass(20, 44)));
  EXPECT_LT((found.to(at::kDouble) - expected).abs().max().item<double>(), 1e-4);
}

TEST_P(DecoderTest, StartsAfterAPrefix) {
  std::vector<LayerKv> kv, again;
  Pass whole = pass(30, 45);
  whole.keep = &kv;
  at::Tensor expected = decoder.hidden(whole);
  Pass rest = pass(30, 45);
  rest.start = 17, rest.prefix = &kv, rest.keep = &again;
  at::Tensor found = decoder.hidden(rest);
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-4);
  EXPECT_TRUE(at::equal(again[2].v.narrow(0, 0, 17), kv[2].v.narrow(0, 0, 17)));
  EXPECT_LT((again[2].k_unrotated - kv[2].k_unrotated).abs().max().item<double>(), 1e-4);
}

// A text in chunks, each with the rotary table's rows of its place in it.
TEST_P(DecoderTest, ChunksOfATextBeginAnywhere) {
  at::Tensor expected = decoder.hidden(pass(0, 45));
  std::vector<LayerInput> past(3);
  std::vector<at::Tensor> found;
  for (int64_t first : {0, 16, 17, 40}) {
    const int64_t end = first == 0 ? 16 : first == 16 ? 17 : first == 17 ? 40 : 45;
    Pass chunk;
    chunk.ids = std::span(ids).subspan(first, end - first);
    chunk.offset = first, chunk.wanted_to = end - first;
    chunk.cache = [&](const LayerInput& input) {
      EXPECT_EQ(input.offset, first);
      EXPECT_EQ(input.first_query, first);
      LayerInput& all = past[input.layer];
      for (at::Tensor LayerInput::*x : {&LayerInput::k, &LayerInput::v}) {
        all.*x = first == 0 ? (input.*x).clone() : at::cat({all.*x, input.*x});
      }
      CachedTokens whole, attended;
      whole.k = all.k, whole.v = all.v;
      attended.attended = at::empty_like(input.q);
      attend(input.q, first, whole, attended.attended);
      return attended;
    };
    found.push_back(decoder.hidden(chunk));
  }
  EXPECT_LT((at::cat(found) - expected).abs().max().item<double>(), 1e-4);
  EXPECT_LT((decoder.hidden(pass(0, 45)) - expected).abs().max().item<double>(), 1e-6);
}

TEST_P(DecoderTest, LogitsComeInColumnsToo) {
  at::Tensor hidden = decoder.hidden(pass(10, 20)), whole = logits(hidden), part = at::empty({10, 7});
  decoder.logits(hidden, 13, 20, part);
  EXPECT_LT((part - whole.narrow(1, 13, 7)).abs().max().item<double>(), 1e-5);
}

TEST_P(DecoderTest, APerturbationOfOneChangesNothing) {
  Pass shaken = pass(10, 20);
  at::Tensor plain = decoder.hidden(shaken);
  shaken.embedding_factor = at::ones({45, 24});
  EXPECT_TRUE(at::equal(decoder.hidden(shaken), plain));
  shaken.embedding_factor = at::full({45, 24}, 1) + 0.01 * at::randn({45, 24});
  EXPECT_FALSE(at::equal(decoder.hidden(shaken), plain));
}

TEST_P(DecoderTest, NamesTheLayerOfANaN) {
  Pass p = pass(10, 20);
  p.cache = [](const LayerInput& input) {
    CachedTokens cache;
    cache.k = input.k;
    cache.v = input.layer == 1 ? at::full_like(input.v, NAN) : input.v;
    return cache;
  };
  try {
    decoder.hidden(p);
    FAIL() << "a NaN went unseen";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "layer 1: NaN or infinity after attention");
  }
}

TEST_P(DecoderTest, RefusesIdsBeyondTheVocabulary) {
  ids[3] = 50;
  EXPECT_THROW(decoder.hidden(pass(10, 20)), InputError);
}

TEST_P(DecoderTest, CountsItsWeights) {
  EXPECT_EQ(decoder.weight_bytes(), 4u * uint64_t(weights.config().parameters()));
}

INSTANTIATE_TEST_SUITE_P(Architectures, DecoderTest, testing::Values("llama", "mistral", "qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvcost
