// Expected attention: what queries to come would weigh least, if they were drawn like those of the past.
// Devoto et al., Expected Attention: KV Cache Compression by Estimating Attention from Future Queries
// Distribution, 2025, arXiv 2510.00636.
// When the cache is full, `every` tokens leave at once. For each query head, over all past queries of the
// window but the first `sinks`, whatever has been evicted since: their mean and their covariance (divided by
// their number) before RoPE. Both are turned by RoPE's matrix averaged over the next `ahead` positions. Such
// a Gaussian query has the expected exponential exp(mean . k / sqrt(d) + k' covariance k / 2d) on key k;
// these are normalized over the kept tokens but the sinks, averaged over the query heads that read the KV
// head, and multiplied by the length of the token's value. The smallest go. Unlike kvpress, from which this
// comes: only past queries count at each cut (there a prompt is cut once, after all of it is read), a cache
// never holds more than `capacity`, and the newest token is safe.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/cache/registry.h"

namespace kvcost {

class ExpectedAttention : public IntervalPolicy {
 public:
  explicit ExpectedAttention(Knobs& knobs) : capacity_(knobs.integer("capacity", 2, kNever)) {
    recent_ = std::max<int64_t>(1, knobs.integer("recent", 0, capacity_ - 1, 0));
    const int64_t free = capacity_ - recent_;
    if (!knobs.has("sinks") && free <= kDefaultSinks) {
      knobs.refuse("sinks",
                   fmt::format("an integer from 0 to {} ({} if not given)", free - 1, kDefaultSinks));
    }
    sinks_ = knobs.integer("sinks", 0, free - 1, kDefaultSinks);
    every_ = knobs.integer("every", 1, free - sinks_, std::min<int64_t>(64, free - sinks_));
    ahead_ = knobs.integer("ahead", 1, 1 << 20, 512);
    covariance_ = knobs.boolean("covariance", true);
    values_ = knobs.boolean("values", true);
  }

  static Description describe() {
    return {"every n tokens: evicts what queries like the past ones are expected to weigh least",
            "Devoto et al. 2025, arXiv 2510.00636",
            {{"capacity", "tokens", "most tokens a query sees, itself included"},
             {"every", "tokens", "how many leave at once when the cache is full (64)"},
             {"ahead", "tokens", "next positions that RoPE is averaged over (512)"},
             {"covariance", "-", "with the covariance over past queries, not only their mean (true)"},
             {"values", "-", "times the length of the token's value (true)"},
             {"recent", "tokens", "newest tokens that stay (0: only the newest one)"},
             {"sinks", "tokens", "first tokens that never leave and whose queries do not count (4)"}},
            {R"({"capacity": 8, "every": 3, "sinks": 2})",
             R"({"capacity": 7, "every": 1, "sinks": 0, "covariance": false, "values": false})",
             R"({"capacity": 9, "every": 2, "sinks": 1, "recent": 3, "ahead": 5})"}};
  }

  int64_t capacity() const override { return capacity_; }
  /// Every query's statistics count.
  int64_t same_until(const CacheShape&) const override { return 0; }
  /// Between two cuts it holds anything from capacity - every + 1 to the capacity.
  int64_t tokens_held(const CacheShape& shape) const override {
    const int64_t last = shape.tokens - 1;
    return last < capacity_ ? shape.tokens : capacity_ - every_ + 1 + (last - capacity_) % every_;
  }
  int64_t next_decision(const CacheShape&, int64_t query) const override {
    const int64_t cuts = std::max<int64_t>(0, query - (capacity_ - 1) + every_ - 1) / every_;
    return capacity_ - 1 + cuts * every_;
  }

  void decide(const CacheShape& shape, const LayerSoFar& layer, std::span<uint8_t> kept) const override {
    const at::Tensor turn = turn_of(layer);
    at::parallel_for(0, shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const auto head = kept.subspan(h * layer.tokens, layer.tokens);
        drop_smallest(scores_of(shape, layer, h, turn, head), every_, head);
      }
    });
  }

 private:
  static constexpr int64_t kDefaultSinks = 4;

  /// RoPE's matrix averaged over the next positions, [head_dim, head_dim].
  at::Tensor turn_of(const LayerSoFar& layer) const {
    // Position 1 turns each pair of channels by its frequency.
    const at::Tensor frequency = at::atan2(layer.sin[1].to(at::kDouble), layer.cos[1].to(at::kDouble));
    const at::Tensor positions = at::arange(layer.tokens, layer.tokens + ahead_, at::kDouble).unsqueeze(1);
    const at::Tensor cos = (positions * frequency).cos().mean(0).diag();
    const at::Tensor sin = (positions * frequency).sin().mean(0).diag();
    return at::cat({at::cat({cos, -sin}, 1), at::cat({sin, cos}, 1)}, 0);
  }

  /// [tokens], infinity for what is safe.
  std::vector<double> scores_of(const CacheShape& shape, const LayerSoFar& layer, int64_t kv_head,
                                const at::Tensor& turn, std::span<const uint8_t> kept) const {
    const int64_t group = shape.query_heads / shape.kv_heads, d = shape.head_dim;
    std::vector<int64_t> counted;  // tokens that share the expected attention
    for (int64_t j = sinks_; j < layer.tokens; ++j) {
      if (kept[j] != 0) counted.push_back(j);
    }
    const at::Tensor tokens = at::tensor(counted, at::kLong);
    const at::Tensor keys =
        read_now(layer.cache.k, layer.cache.k_rounded, layer.cache.k_rounded_at, layer, kv_head, tokens);
    at::Tensor mean = at::zeros({tokens.size(0)}, at::kDouble);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const at::Tensor queries = unrotated(layer, h);
      const at::Tensor middle = queries.mean(0, false, at::kDouble);
      at::Tensor expected = at::mv(keys, at::mv(turn, middle)) / std::sqrt(static_cast<double>(d));
      if (covariance_) {
        const at::Tensor apart = queries - middle.to(at::kFloat);
        const at::Tensor spread =
            at::mm(apart.t(), apart).to(at::kDouble) / static_cast<double>(queries.size(0));
        const at::Tensor turned = at::mm(at::mm(turn, spread), turn.t());
        expected += (at::mm(keys, turned) * keys).sum(1) / (2.0 * static_cast<double>(d));
      }
      mean += at::softmax(expected, 0) / static_cast<double>(group);
    }
    if (values_) {
      mean *= read_now(layer.cache.v, layer.cache.v_rounded, layer.cache.v_rounded_at, layer, kv_head, tokens)
                  .square()
                  .sum(1)
                  .sqrt();
    }
    std::vector<double> scores(static_cast<size_t>(layer.tokens), std::numeric_limits<double>::infinity());
    for (size_t n = 0; n < counted.size(); ++n) {
      if (counted[n] < layer.tokens - recent_) scores[counted[n]] = mean.const_data_ptr<double>()[n];
    }
    return scores;
  }

  /// Rows of keys or values as the newest query reads them, [rows, head_dim] fp64.
  static at::Tensor read_now(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& rounded_at,
                             const LayerSoFar& layer, int64_t kv_head, const at::Tensor& tokens) {
    auto rows = [&](const at::Tensor& x) { return x.select(1, kv_head).index_select(0, tokens); };
    if (!rounded.defined()) return rows(exact).to(at::kDouble);
    if (!rounded_at.defined()) return rows(rounded).to(at::kDouble);
    const at::Tensor by_now = (rounded_at[kv_head] < layer.tokens).index_select(0, tokens).unsqueeze(1);
    return at::where(by_now, rows(rounded), rows(exact)).to(at::kDouble);
  }

  /// A query head's past queries before RoPE, [queries, head_dim].
  at::Tensor unrotated(const LayerSoFar& layer, int64_t head) const {
    const int64_t first = sinks_, half = layer.q.size(2) / 2;
    auto rest = [&](const at::Tensor& x) { return x.narrow(0, first, layer.tokens - first); };
    const at::Tensor q = rest(layer.q.select(1, head)), cos = rest(layer.cos), sin = rest(layer.sin);
    const at::Tensor a = q.narrow(1, 0, half), b = q.narrow(1, half, half);
    return at::cat({a * cos + b * sin, b * cos - a * sin}, 1);
  }

  int64_t capacity_, recent_ = 0, sinks_ = 0, every_ = 0, ahead_ = 0;
  bool covariance_ = true, values_ = true;
};

KVCOST_POLICY("expected", ExpectedAttention);

}  // namespace kvcost
