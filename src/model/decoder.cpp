#include "src/model/decoder.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "src/base/error.h"
#include "src/model/elementwise.h"
#include "src/model/rotary.h"

namespace kvcost {
namespace {

/// Tokens that the MLP takes at a time: its wide intermediate stays in the last-level cache.
constexpr int64_t kMlpRows = 512;

struct Layer {
  at::Tensor input_norm, post_norm;  // [hidden]
  at::Tensor q_norm, k_norm;         // [head_dim], or undefined
  at::Tensor qkv, qkv_bias;          // [(query_heads + 2 kv_heads) head_dim, hidden], [...] or undefined
  at::Tensor output;                 // [hidden, query_heads head_dim]
  at::Tensor gate_up;                // [2 intermediate, hidden]
  at::Tensor down;                   // [hidden, intermediate]
};

std::string layer_name(int64_t layer, const char* rest) {
  return fmt::format("model.layers.{}.{}", layer, rest);
}

/// out [rows, n] = x [rows, k] * weight [n, k]^T; x and out fp32, weight in the run's dtype.
void linear(const at::Tensor& x, const at::Tensor& weight, at::Tensor out) {
  if (weight.scalar_type() == at::kFloat) {
    at::mm_out(out, x, weight.t());
  } else {
    out.copy_(at::linear(x.to(weight.scalar_type()), weight));
  }
}

/// Rows of [tokens, ...] in parallel.
void for_rows(int64_t rows, const std::function<void(int64_t)>& work) {
  at::parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) work(row);
  });
}

/// Grows with the longest pass, then is reused: fresh pages cost more than what is written to them.
struct Scratch {
  at::Tensor buffer;
  at::Tensor get(at::IntArrayRef shape) {
    int64_t numbers = c10::multiply_integers(shape);
    if (!buffer.defined() || buffer.numel() < numbers) buffer = at::empty({numbers});
    return buffer.narrow(0, 0, numbers).view(shape);
  }
};

}  // namespace

struct Decoder::Impl {
  ModelConfig config;
  at::ScalarType type;
  at::Tensor embedding, final_norm, output;
  std::vector<Layer> layers;
  std::vector<float> rope_divisors;
  mutable Scratch x, normed, qkv, q, k_unrotated, k, v, attended, projected, gate_up, gated;
  mutable at::Tensor cos, sin;      // [positions, head_dim / 2]
  mutable int64_t first_angle = 0;  // position of their first row

  const float* norm(const at::Tensor& t) const { return t.const_data_ptr<float>(); }

  void load(const WeightSource& weights);
  void need_angles(int64_t first, int64_t count) const;
  void project(const Layer& layer, const Pass& pass, int64_t start, int64_t query_start, int64_t query_end,
               LayerInput& input) const;
  void normalize(const at::Tensor& from, const at::Tensor& weight, at::Tensor to, const char* where,
                 int64_t layer) const;
  void mlp(const Layer& layer, at::Tensor& rows) const;
};

void Decoder::Impl::load(const WeightSource& weights) {
  const ModelConfig& c = config;
  const int64_t q_rows = c.query_heads * c.head_dim, kv_rows = c.kv_heads * c.head_dim;
  std::vector<std::function<void()>> jobs;
  auto fill = [&](const std::string& name, at::Tensor into) {
    jobs.push_back([&weights, name, into] {
      if (into.scalar_type() == at::kFloat) {
        weights.read(name, into.mutable_data_ptr<float>());
      } else {
        at::Tensor exact = at::empty(into.sizes(), at::kFloat);
        weights.read(name, exact.mutable_data_ptr<float>());
        into.copy_(exact);
      }
    });
  };
  auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
    at::Tensor t = at::empty({rows, columns}, type);
    fill(name, t);
    return t;
  };
  auto vector = [&](const std::string& name, int64_t size) {
    at::Tensor t = at::empty({size});
    fill(name, t);
    return t;
  };
  embedding = matrix("model.embed_tokens.weight", c.vocabulary, c.hidden);
  output = c.tied_output ? embedding : matrix("lm_head.weight", c.vocabulary, c.hidden);
  final_norm = vector("model.norm.weight", c.hidden);
  for (int64_t l = 0; l < c.layers; ++l) {
    Layer layer;
    layer.input_norm = vector(layer_name(l, "input_layernorm.weight"), c.hidden);
    layer.post_norm = vector(layer_name(l, "post_attention_layernorm.weight"), c.hidden);
    layer.qkv = at::empty({q_rows + 2 * kv_rows, c.hidden}, type);
    fill(layer_name(l, "self_attn.q_proj.weight"), layer.qkv.narrow(0, 0, q_rows));
    fill(layer_name(l, "self_attn.k_proj.weight"), layer.qkv.narrow(0, q_rows, kv_rows));
    fill(layer_name(l, "self_attn.v_proj.weight"), layer.qkv.narrow(0, q_rows + kv_rows, kv_rows));
    if (c.qkv_bias) {
      layer.qkv_bias = at::empty({q_rows + 2 * kv_rows});
      fill(layer_name(l, "self_attn.q_proj.bias"), layer.qkv_bias.narrow(0, 0, q_rows));
      fill(layer_name(l, "self_attn.k_proj.bias"), layer.qkv_bias.narrow(0, q_rows, kv_rows));
      fill(layer_name(l, "self_attn.v_proj.bias"), layer.qkv_bias.narrow(0, q_rows + kv_rows, kv_rows));
    }
    if (c.qk_norm) {
      layer.q_norm = vector(layer_name(l, "self_attn.q_norm.weight"), c.head_dim);
      layer.k_norm = vector(layer_name(l, "self_attn.k_norm.weight"), c.head_dim);
    }
    layer.output = matrix(layer_name(l, "self_attn.o_proj.weight"), c.hidden, q_rows);
    layer.gate_up = at::empty({2 * c.intermediate, c.hidden}, type);
    fill(layer_name(l, "mlp.gate_proj.weight"), layer.gate_up.narrow(0, 0, c.intermediate));
    fill(layer_name(l, "mlp.up_proj.weight"), layer.gate_up.narrow(0, c.intermediate, c.intermediate));
    layer.down = matrix(layer_name(l, "mlp.down_proj.weight"), c.hidden, c.intermediate);
    layers.push_back(std::move(layer));
  }
  // Exceptions may not leave a parallel region; at::parallel_for carries the first one out.
  std::atomic<size_t> next{0};
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    for (size_t job = next++; job < jobs.size(); job = next++) jobs[job]();
  });
  weights.release_pages();
}

/// A window's table is kept for the next one; a stream's chunks each get their own, or memory would grow with
/// it.
void Decoder::Impl::need_angles(int64_t first, int64_t count) const {
  if (cos.defined() && first_angle <= first && first + count <= first_angle + cos.size(0)) return;
  std::tie(cos, sin) = rotary_table(config, rope_divisors, first, count);
  first_angle = first;
}

/// Normalized input -> queries of [query_start, query_end), keys and values of [start, tokens), after the
/// prefix's.
void Decoder::Impl::project(const Layer& layer, const Pass& pass, int64_t start, int64_t query_start,
                            int64_t query_end, LayerInput& input) const {
  const ModelConfig& c = config;
  const int64_t tokens = static_cast<int64_t>(pass.ids.size()), d = c.head_dim, half = d / 2;
  const int64_t q_width = c.query_heads * d, kv_width = c.kv_heads * d, queries = query_end - query_start;
  at::Tensor rows = normed.get({tokens - start, c.hidden});
  const bool all = query_start == start && query_end == tokens;
  // One product where every token asks, two where only some do (the last layer).
  at::Tensor fused, q_rows, kv_rows;
  if (all) {
    fused = qkv.get({tokens - start, q_width + 2 * kv_width});
    linear(rows, layer.qkv, fused);
    q_rows = fused.narrow(1, 0, q_width);
    kv_rows = fused.narrow(1, q_width, 2 * kv_width);
  } else {
    fused = qkv.get({(tokens - start) * 2 * kv_width + queries * q_width});
    kv_rows = fused.narrow(0, 0, (tokens - start) * 2 * kv_width).view({tokens - start, 2 * kv_width});
    q_rows = fused.narrow(0, kv_rows.numel(), queries * q_width).view({queries, q_width});
    linear(rows, layer.qkv.narrow(0, q_width, 2 * kv_width), kv_rows);
    linear(rows.narrow(0, query_start - start, queries), layer.qkv.narrow(0, 0, q_width), q_rows);
  }
  input.offset = pass.offset;
  input.first_query = pass.offset + query_start;
  input.q = q.get({queries, c.query_heads, d});
  if (!input.k_unrotated.defined()) input.k_unrotated = k_unrotated.get({tokens, c.kv_heads, d});
  if (!input.v.defined()) input.v = v.get({tokens, c.kv_heads, d});
  input.k = k.get({tokens, c.kv_heads, d});
  input.cos = cos.narrow(0, pass.offset - first_angle, tokens);
  input.sin = sin.narrow(0, pass.offset - first_angle, tokens);
  if (layer.qkv_bias.defined())
    input.k_bias = layer.qkv_bias.narrow(0, q_width, kv_width).view({c.kv_heads, d});
  const float* bias = layer.qkv_bias.defined() ? layer.qkv_bias.const_data_ptr<float>() : nullptr;
  const auto *cos_rows = input.cos.const_data_ptr<float>(), *sin_rows = input.sin.const_data_ptr<float>();
  auto* q_out = input.q.mutable_data_ptr<float>();
  auto* k_raw = input.k_unrotated.mutable_data_ptr<float>();
  auto* k_out = input.k.mutable_data_ptr<float>();
  auto* v_out = input.v.mutable_data_ptr<float>();
  const float eps = static_cast<float>(c.norm_eps);
  auto* q_from = q_rows.mutable_data_ptr<float>();
  auto* kv_from = kv_rows.mutable_data_ptr<float>();
  const int64_t q_stride = q_rows.stride(0), kv_stride = kv_rows.stride(0);
  for_rows(queries, [&](int64_t row) {
    float* from = q_from + row * q_stride;
    if (bias != nullptr) add(from, bias, q_width);
    const int64_t position = query_start + row;
    for (int64_t h = 0; h < c.query_heads; ++h) {
      float* head = from + h * d;
      if (c.qk_norm) rms_norm(head, norm(layer.q_norm), eps, d, head);
      rotate_head(head, cos_rows + position * half, sin_rows + position * half, half,
                  q_out + row * q_width + h * d);
    }
  });
  if (start > 0) {
    const LayerKv& prefix = (*pass.prefix)[input.layer];
    input.k_unrotated.narrow(0, 0, start).copy_(prefix.k_unrotated.narrow(0, 0, start));
    input.v.narrow(0, 0, start).copy_(prefix.v.narrow(0, 0, start));
  }
  for_rows(tokens, [&](int64_t t) {
    if (t >= start) {
      float* from = kv_from + (t - start) * kv_stride;
      if (bias != nullptr) add(from, bias + q_width, 2 * kv_width);
      for (int64_t h = 0; h < c.kv_heads && c.qk_norm; ++h) {
        rms_norm(from + h * d, norm(layer.k_norm), eps, d, from + h * d);
      }
      std::copy_n(from, kv_width, k_raw + t * kv_width);
      std::copy_n(from + kv_width, kv_width, v_out + t * kv_width);
    }
    for (int64_t h = 0; h < c.kv_heads; ++h) {
      rotate_head(k_raw + t * kv_width + h * d, cos_rows + t * half, sin_rows + t * half, half,
                  k_out + t * kv_width + h * d);
    }
  });
}

void Decoder::Impl::normalize(const at::Tensor& from, const at::Tensor& weight, at::Tensor to,
                              const char* where, int64_t layer) const {
  const int64_t width = config.hidden;
  const auto* in = from.const_data_ptr<float>();
  auto* out = to.mutable_data_ptr<float>();
  std::atomic<bool> finite{true};
  for_rows(from.size(0), [&](int64_t row) {
    if (!rms_norm(in + row * width, norm(weight), static_cast<float>(config.norm_eps), width,
                  out + row * width)) {
      finite = false;
    }
  });
  if (!finite) throw Failure(fmt::format("layer {}: NaN or infinity {}", layer, where));
}

/// rows [n, hidden] += MLP of rows.
void Decoder::Impl::mlp(const Layer& layer, at::Tensor& rows) const {
  const int64_t width = config.intermediate;
  at::Tensor result = projected.get({rows.size(0), config.hidden}),
             in = normed.get({rows.size(0), config.hidden});
  for (int64_t first = 0; first < rows.size(0); first += kMlpRows) {
    const int64_t count = std::min(kMlpRows, rows.size(0) - first);
    at::Tensor wide = gate_up.get({count, 2 * width}), narrow = gated.get({count, width});
    linear(in.narrow(0, first, count), layer.gate_up, wide);
    const auto* from = wide.const_data_ptr<float>();
    auto* to = narrow.mutable_data_ptr<float>();
    for_rows(count, [&](int64_t row) {
      silu_mul(from + row * 2 * width, from + row * 2 * width + width, width, to + row * width);
    });
    linear(narrow, layer.down, result.narrow(0, first, count));
  }
  auto* sum = rows.mutable_data_ptr<float>();
  const auto* term = result.const_data_ptr<float>();
  for_rows(rows.size(0),
           [&](int64_t row) { add(sum + row * config.hidden, term + row * config.hidden, config.hidden); });
}

Decoder::Decoder(const WeightSource& weights, Dtype dtype) : impl_(std::make_unique<Impl>()) {
  impl_->config = weights.config();
  impl_->type = dtype == Dtype::bf16 ? at::kBFloat16 : at::kFloat;
  impl_->rope_divisors = weights.rope_divisors();
  impl_->load(weights);
}

Decoder::~Decoder() = default;

const ModelConfig& Decoder::config() const { return impl_->config; }

at::Tensor Decoder::hidden(const Pass& pass) const {
  const Impl& m = *impl_;
  const ModelConfig& c = m.config;
  const int64_t tokens = static_cast<int64_t>(pass.ids.size()), start = pass.start;
  if (start < 0 || start > pass.wanted_from || pass.wanted_from >= pass.wanted_to ||
      pass.wanted_to > tokens || (start > 0 && pass.prefix == nullptr) || pass.offset < 0 ||
      (pass.offset > 0 && start > 0)) {
    throw Failure("decoder: the positions of a pass do not fit");
  }
  if (c.sliding_window && tokens > *c.sliding_window) {
    throw InputError(
        fmt::format("window length {}: the model attends to the last {} tokens only, longer windows are "
                    "not supported",
                    tokens, *c.sliding_window));
  }
  m.need_angles(pass.offset, tokens);
  at::Tensor x = m.x.get({tokens - start, c.hidden});
  for (int64_t t = start; t < tokens; ++t) {
    if (pass.ids[t] < 0 || pass.ids[t] >= c.vocabulary) {
      throw InputError(fmt::format("token id {}: the model has {}", pass.ids[t], c.vocabulary));
    }
    x[t - start].copy_(m.embedding[pass.ids[t]]);
  }
  if (pass.embedding_factor.defined()) x.mul_(pass.embedding_factor.narrow(0, start, tokens - start));
  if (pass.keep != nullptr) pass.keep->assign(c.layers, {});
  for (int64_t l = 0; l < c.layers; ++l) {
    const Layer& layer = m.layers[l];
    const bool last = l + 1 == c.layers;
    const int64_t query_start = last ? pass.wanted_from : start, query_end = last ? pass.wanted_to : tokens;
    const int64_t queries = query_end - query_start;
    // What is not finite here left the layer before.
    m.normalize(x, layer.input_norm, m.normed.get({tokens - start, c.hidden}), l == 0 ? "enters" : "leaves",
                std::max<int64_t>(l - 1, 0));
    LayerInput input;
    input.layer = static_cast<int>(l);
    if (pass.keep != nullptr) {
      (*pass.keep)[l] = {at::empty({tokens, c.kv_heads, c.head_dim}),
                         at::empty({tokens, c.kv_heads, c.head_dim})};
      input.k_unrotated = (*pass.keep)[l].k_unrotated;
      input.v = (*pass.keep)[l].v;
    }
    m.project(layer, pass, start, query_start, query_end, input);
    CachedTokens cache;
    if (pass.cache) {
      cache = pass.cache(input);
    } else {
      cache.k = input.k;
      cache.v = input.v;
    }
    at::Tensor attended = cache.attended;
    if (!attended.defined()) {
      attended = m.attended.get({queries, c.query_heads, c.head_dim});
      attend(input.q, query_start, cache, attended);
    }
    at::Tensor projected = m.projected.get({queries, c.hidden});
    linear(attended.view({queries, c.query_heads * c.head_dim}), layer.output, projected);
    x = x.narrow(0, query_start - start, queries);
    auto* sum = x.mutable_data_ptr<float>();
    const auto* term = projected.const_data_ptr<float>();
    for_rows(queries, [&](int64_t row) { add(sum + row * c.hidden, term + row * c.hidden, c.hidden); });
    m.normalize(x, layer.post_norm, m.normed.get({queries, c.hidden}), "after attention", l);
    m.mlp(layer, x);
  }
  at::Tensor result = at::empty({pass.wanted_to - pass.wanted_from, c.hidden});
  m.normalize(x, m.final_norm, result, "leaves", c.layers - 1);
  return result;
}

void Decoder::logits(const at::Tensor& hidden, int64_t first, int64_t last, at::Tensor& out) const {
  linear(hidden, impl_->output.narrow(0, first, last - first), out);
}

at::Tensor Decoder::key_bias(int layer) const {
  const ModelConfig& c = impl_->config;
  const at::Tensor& bias = impl_->layers.at(layer).qkv_bias;
  if (!bias.defined()) return {};
  return bias.narrow(0, c.query_heads * c.head_dim, c.kv_heads * c.head_dim).view({c.kv_heads, c.head_dim});
}

uint64_t Decoder::weight_bytes() const {
  const Impl& m = *impl_;
  uint64_t bytes = 0;
  auto count = [&](const at::Tensor& t) { bytes += t.defined() ? t.nbytes() : 0; };
  count(m.embedding), count(m.final_norm);
  if (!m.config.tied_output) count(m.output);
  for (const Layer& layer : m.layers) {
    for (const at::Tensor* t : {&layer.input_norm, &layer.post_norm, &layer.q_norm, &layer.k_norm, &layer.qkv,
                                &layer.qkv_bias, &layer.output, &layer.gate_up, &layer.down}) {
      count(*t);
    }
  }
  return bytes;
}

}  // namespace kvcost
