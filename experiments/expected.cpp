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

  std::unique_ptr<IntervalState> begin(const CacheShape& shape) const override {
    auto past = std::make_unique<PastQueries>();
    past->seen = sinks_;
    past->sum = at::zeros({shape.query_heads, shape.head_dim}, at::kDouble);
    past->products = at::zeros({shape.query_heads, shape.head_dim, shape.head_dim}, at::kDouble);
    return past;
  }

  void decide(const CacheShape& shape, const LayerSoFar& layer, std::span<uint8_t> kept) const override {
    const std::unique_ptr<IntervalState> anew = layer.state == nullptr ? begin(shape) : nullptr;
    auto& past = dynamic_cast<PastQueries&>(layer.state == nullptr ? *anew : *layer.state);
    std::vector<Head> heads;
    for (int64_t h = 0; h < shape.kv_heads; ++h) heads.push_back(read_head(layer, h, kept));
    const at::Tensor expected = at::empty({shape.query_heads, layer.tokens}, at::kDouble);
    const int64_t group = shape.query_heads / shape.kv_heads;
    at::parallel_for(0, shape.query_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; ++q) {
        add_new_queries(past, layer, q);
        const Head& head = heads[q / group];
        expected[q].narrow(0, 0, head.keys.size(0)).copy_(expected_weights(past, layer.tokens, q, head));
      }
    });
    past.seen = layer.tokens;
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      const at::Tensor mean =
          expected.narrow(0, h * group, group).narrow(1, 0, heads[h].keys.size(0)).mean(0) * heads[h].lengths;
      std::vector<double> scores(static_cast<size_t>(layer.tokens), std::numeric_limits<double>::infinity());
      for (size_t n = 0; n < heads[h].tokens.size(); ++n) {
        const int64_t j = heads[h].tokens[n];
        if (j < layer.tokens - recent_) scores[j] = mean.const_data_ptr<double>()[n];
      }
      drop_smallest(scores, every_, kept.subspan(h * layer.tokens, layer.tokens), layer.ties_of(h));
    }
  }

 private:
  static constexpr int64_t kDefaultSinks = 4;

  /// Sums over all queries before position `seen` but the first `sinks`, before RoPE.
  struct PastQueries : IntervalState {
    int64_t seen = 0;
    at::Tensor sum;       ///< [query_heads, head_dim] fp64
    at::Tensor products;  ///< [query_heads, head_dim, head_dim] fp64, of each query with itself
  };

  /// What a KV head keeps but the sinks.
  struct Head {
    std::vector<int64_t> tokens;
    at::Tensor keys;     ///< [tokens, head_dim] fp64, turned back by RoPE averaged over the next positions
    at::Tensor middle;   ///< [head_dim] fp64, their mean
    at::Tensor apart;    ///< [tokens, head_dim] fp32, keys less middle
    at::Tensor lengths;  ///< [tokens] fp64, of the values; 1 if they do not count
  };

  Head read_head(const LayerSoFar& layer, int64_t kv_head, std::span<const uint8_t> kept) const {
    Head head;
    for (int64_t j = sinks_; j < layer.tokens; ++j) {
      if (kept[kv_head * layer.tokens + j] != 0) head.tokens.push_back(j);
    }
    const at::Tensor tokens = at::tensor(head.tokens, at::kLong);
    const CachedTokens& cache = layer.cache;
    head.keys =
        turned_back(read_now(cache.k, cache.k_rounded, cache.k_rounded_at, layer, kv_head, tokens), layer);
    head.middle = head.keys.mean(0);
    head.apart = (head.keys - head.middle).to(at::kFloat);
    head.lengths = at::ones({tokens.size(0)}, at::kDouble);
    if (values_) {
      const at::Tensor values =
          read_now(cache.v, cache.v_rounded, cache.v_rounded_at, layer, kv_head, tokens);
      head.lengths = values.square().sum(1).sqrt();
    }
    return head;
  }

  /// query . key after RoPE's average over the next positions is query . turned-back key.
  at::Tensor turned_back(const at::Tensor& keys, const LayerSoFar& layer) const {
    const int64_t half = keys.size(1) / 2;
    // Position 1 turns each pair of channels by its frequency. The mean of cos and sin over equally spaced
    // angles is that of the middle one, shrunk.
    const at::Tensor frequency = at::atan2(layer.sin[1].to(at::kDouble), layer.cos[1].to(at::kDouble));
    const auto count = static_cast<double>(ahead_);
    const at::Tensor slow = at::sin(frequency / 2) * count;
    const at::Tensor shrunk =
        at::where(slow == 0, at::ones_like(slow), at::sin(frequency * (count / 2)) / slow);
    const at::Tensor middle = frequency * (static_cast<double>(layer.tokens) + (count - 1) / 2);
    const at::Tensor cos = middle.cos() * shrunk, sin = middle.sin() * shrunk;
    const at::Tensor a = keys.narrow(1, 0, half), b = keys.narrow(1, half, half);
    return at::cat({a * cos + b * sin, b * cos - a * sin}, 1);
  }

  /// Of one query head.
  void add_new_queries(PastQueries& past, const LayerSoFar& layer, int64_t head) const {
    const int64_t first = past.seen, half = layer.q.size(2) / 2;
    auto rest = [&](const at::Tensor& x, int64_t from) {
      return x.narrow(0, first - from, layer.tokens - first);
    };
    const at::Tensor q = rest(layer.q.select(1, head), layer.first_query);
    const at::Tensor cos = rest(layer.cos, 0), sin = rest(layer.sin, 0);
    const at::Tensor a = q.narrow(1, 0, half), b = q.narrow(1, half, half);
    const at::Tensor unrotated = at::cat({a * cos + b * sin, b * cos - a * sin}, 1).to(at::kDouble);
    past.sum[head] += unrotated.sum(0);
    if (covariance_) past.products[head].addmm_(unrotated.t(), unrotated);
  }

  /// [keys] softmax over them of what a query head's next queries are expected to make of each.
  at::Tensor expected_weights(const PastQueries& past, int64_t tokens, int64_t head, const Head& kept) const {
    const at::Tensor& keys = kept.keys;
    const auto d = static_cast<double>(keys.size(1)), queries = static_cast<double>(tokens - sinks_);
    const at::Tensor mean = past.sum[head] / queries;
    at::Tensor expected = at::mv(keys, mean) / std::sqrt(d);
    if (covariance_) {
      const at::Tensor spread = past.products[head] / queries - at::outer(mean, mean);
      // k' S k = 2 m' S k + (k - m)' S (k - m) less what all keys share. The products of many keys are those
      // of small numbers, for which fp32 will do.
      const at::Tensor squares = (at::mm(kept.apart, spread.to(at::kFloat)) * kept.apart).sum(1);
      expected += (2 * at::mv(keys, at::mv(spread, kept.middle)) + squares) / (2 * d);
    }
    return at::softmax(expected, 0);
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

  int64_t capacity_, recent_ = 0, sinks_ = 0, every_ = 0, ahead_ = 0;
  bool covariance_ = true, values_ = true;
};

KVCOST_POLICY("expected", ExpectedAttention);

}  // namespace kvcost
