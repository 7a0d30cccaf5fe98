// How near the full-cache row comes to what must be paid: the weight products and the causal half of
// attention's two, at the rate of the products measured in the same run with the same shapes, turn by turn.
//   limit_bench MODEL [TURNS] [LENGTH] [SCORED]  -> one JSON object
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/model/decoder.h"

namespace kvcost {
namespace {

double seconds_of(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One weight product of a window: x [rows, in] * W [out, in]^T, `times` per window.
struct Product {
  int64_t rows, out, in, times;
  double flops() const { return 2.0 * double(rows) * double(out) * double(in) * double(times); }
};

std::vector<Product> products(const ModelConfig& c, int64_t length, int64_t scored) {
  const int64_t q = c.query_heads * c.head_dim, kv = 2 * c.kv_heads * c.head_dim, before = c.layers - 1;
  return {{length, q + kv, c.hidden, before},
          {length, c.hidden, q, before},
          {length, 2 * c.intermediate, c.hidden, before},
          {length, c.hidden, c.intermediate, before},
          // The last layer: keys and values of every token, the rest for scored positions only.
          {length, kv, c.hidden, 1},
          {scored, q, c.hidden, 1},
          {scored, c.hidden, q, 1},
          {scored, 2 * c.intermediate, c.hidden, 1},
          {scored, c.hidden, c.intermediate, 1},
          {scored, c.vocabulary, c.hidden, 1}};
}

/// Best of two ways: MKL into a ready buffer, and oneDNN with packed weights.
double product_seconds(const Product& p) {
  at::Tensor x = at::randn({p.rows, p.in}), weight = at::randn({p.out, p.in}),
             out = at::empty({p.rows, p.out});
  auto plain = [&] { at::mm_out(out, x, weight.t()); };
  plain();
  double best = std::min(seconds_of(plain), seconds_of(plain));
  if (p.out < 100000) {  // packing an output matrix takes a second copy of it
    static const auto pack =
        c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_reorder_linear_weight", "");
    static const auto apply = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "");
    std::vector<c10::IValue> stack{weight, p.rows};
    pack.callBoxed(stack);
    at::Tensor packed = stack.at(0).toTensor();
    auto run = [&] {
      std::vector<c10::IValue> arguments{x,
                                         packed,
                                         c10::IValue(),
                                         "none",
                                         c10::List<c10::optional<at::Scalar>>(),
                                         c10::optional<std::string>("")};
      apply.callBoxed(arguments);
    };
    run();
    best = std::min({best, seconds_of(run), seconds_of(run)});
  }
  return best * double(p.times);
}

double attention_flops(const ModelConfig& c, int64_t length, int64_t scored) {
  double pairs = double(c.layers - 1) * double(length) * double(length + 1) / 2;
  pairs += double(scored) * (double(length) - double(scored) / 2);
  return 4 * pairs * double(c.head_dim * c.query_heads);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: limit_bench MODEL [TURNS] [LENGTH] [SCORED]\n");
    return 2;
  }
  const int turns = argc > 2 ? std::atoi(argv[2]) : 3;
  const int64_t length = argc > 3 ? std::atoi(argv[3]) : 2048,
                scored = argc > 4 ? std::atoi(argv[4]) : length / 2;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  at::InferenceMode guard;
  auto weights = open_weights(argv[1]);
  Decoder decoder(*weights, Dtype::fp32);
  const ModelConfig& c = decoder.config();
  std::vector<int32_t> ids(length);
  for (int64_t t = 0; t < length; ++t) ids[t] = static_cast<int32_t>((t * 7919 + 13) % (c.vocabulary - 10));
  at::Tensor logits = at::empty({scored, c.vocabulary});
  double best_limit = 1e30, best_row = 1e30, best_rate = 0;
  for (int turn = 0; turn < turns; ++turn) {
    double product_time = 0, product_flops = 0;
    for (const Product& p : products(c, length, scored)) {
      product_time += product_seconds(p);
      product_flops += p.flops();
    }
    double rate = product_flops / product_time;
    best_limit = std::min(best_limit, product_time + attention_flops(c, length, scored) / rate);
    best_rate = std::max(best_rate, rate);
    double row = seconds_of([&] {
      Pass pass;
      pass.ids = ids;
      pass.wanted_from = length - scored - 1, pass.wanted_to = length - 1;
      decoder.logits(decoder.hidden(pass), 0, c.vocabulary, logits);
    });
    best_row = std::min(best_row, row);
  }
  nlohmann::ordered_json out = {{"model", argv[1]},
                                {"length", length},
                                {"scored", scored},
                                {"threads", at::get_num_threads()},
                                {"turns", turns},
                                {"weight_bytes", decoder.weight_bytes()},
                                {"product_gflops", best_rate / 1e9},
                                {"limit_seconds", best_limit},
                                {"full_row_seconds", best_row},
                                {"share_of_limit", best_limit / best_row}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace kvcost

int main(int argc, char** argv) {
  try {
    return kvcost::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "limit_bench: %s\n", error.what());
    return 1;
  }
}
