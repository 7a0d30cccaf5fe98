// A clairvoyant: after every token the one that matters least from then on goes. No cache could be built like
// this; it is a line to hold the others against.
// Each KV head knows the softmax weights that all queries of the window give with nothing evicted, averaged
// over the query heads that read it, and evicts the token with the smallest sum over the queries still to
// come. The newest token may go too. The sums come from this layer's queries and keys as they are after what
// the layers before have evicted. Greedy, and about weights: neither the best choice of tokens over a whole
// window nor a bound on the loss.
// The H2O paper (Zhang et al., arXiv 2306.14048) calls such a choice the ideal it stands in for.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cache/registry.h"
#include "src/cache/weights.h"

namespace kvcost {

class Oracle : public ForesightPolicy {
 public:
  explicit Oracle(Knobs& knobs) : capacity_(knobs.integer("capacity", 1, kNever)) {}

  static Description describe() {
    return {"per token: evicts the one that later queries weigh least, for each KV head; looks ahead",
            "after Zhang et al. 2023, arXiv 2306.14048",
            {{"capacity", "tokens", "most tokens a query sees, itself included"}},
            {R"({"capacity": 7})", R"({"capacity": 2})", R"({"capacity": 1})"}};
  }

  int64_t capacity() const override { return capacity_; }

  void lifetimes(const CacheShape& shape, const LayerSoFar& whole, int64_t kv_head,
                 std::span<int32_t> evicted_at) const override {
    const int64_t T = shape.tokens;
    if (capacity_ > T) return;
    // Sums over later queries are wanted at every query, T * T numbers. They are kept where blocks begin, and
    // made again inside one block at a time.
    const int64_t block = std::max<int64_t>(64, std::llround(std::ceil(std::sqrt(static_cast<double>(T)))));
    std::vector<int64_t> begins;
    for (int64_t begin = capacity_; begin < T; begin += block) begins.push_back(begin);
    std::vector<std::vector<double>> later(begins.size() + 1,
                                           std::vector<double>(static_cast<size_t>(T), 0.0));
    for (size_t b = begins.size(); b-- > 0;) {
      later[b] = later[b + 1];
      for_queries_backwards(shape, whole, kv_head, begins[b], std::min(T, begins[b] + block),
                            [&](int64_t, const double* weights, int64_t tokens) {
                              for (int64_t j = 0; j < tokens; ++j) later[b][j] += weights[j];
                            });
    }

    std::vector<int64_t> kept;
    for (int64_t j = 0; j < capacity_; ++j) kept.push_back(j);
    std::vector<double> sums(static_cast<size_t>(block * T));  // [block, T]
    for (size_t b = 0; b < begins.size(); ++b) {
      const int64_t begin = begins[b], end = std::min(T, begin + block);
      std::vector<double> running = later[b + 1];
      for_queries_backwards(shape, whole, kv_head, begin, end,
                            [&](int64_t i, const double* weights, int64_t tokens) {
                              for (int64_t j = 0; j < tokens; ++j) running[j] += weights[j];
                              std::copy_n(running.begin(), tokens, sums.begin() + (i - begin) * T);
                            });
      for (int64_t next = begin; next < end; ++next) {
        give_up(kept, sums.data() + (next - begin) * T, next, evicted_at, whole.ties_of(kv_head));
        kept.push_back(next);
      }
    }
    give_up(kept, later.back().data(), T, evicted_at, nullptr);
  }

 private:
  /// Before query `next` comes. `kept` ascends, so that of equals the oldest goes.
  static void give_up(std::vector<int64_t>& kept, const double* sums, int64_t next,
                      std::span<int32_t> evicted_at, TieCount* ties) {
    const auto least =
        std::min_element(kept.begin(), kept.end(), [&](int64_t a, int64_t b) { return sums[a] < sums[b]; });
    if (ties != nullptr) {
      ++ties->evictions;
      ties->tied += std::any_of(least + 1, kept.end(), [&](int64_t j) { return sums[j] == sums[*least]; });
    }
    evicted_at[*least] = static_cast<int32_t>(next);
    kept.erase(least);
  }

  /// `each`(i, mean weights, how many) for i from end - 1 down to begin.
  template <class Each>
  static void for_queries_backwards(const CacheShape& shape, const LayerSoFar& whole, int64_t kv_head,
                                    int64_t begin, int64_t end, const Each& each) {
    const int64_t group = shape.query_heads / shape.kv_heads;
    std::vector<double> mean(static_cast<size_t>((end - begin) * end), 0.0);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const at::Tensor weights = full_weights(shape, whole, h, begin, end - begin);
      const float* numbers = weights.const_data_ptr<float>();
      for (size_t n = 0; n < mean.size(); ++n) mean[n] += static_cast<double>(numbers[n]);
    }
    for (double& weight : mean) weight /= static_cast<double>(group);
    for (int64_t i = end; i-- > begin;) each(i, mean.data() + (i - begin) * end, i + 1);
  }

  int64_t capacity_;
};

KVCOST_POLICY("oracle", Oracle);

}  // namespace kvcost
