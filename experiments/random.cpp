// A token drawn at random goes: what any choice by content has to beat.
// After every token each KV head of each layer evicts one of the tokens it keeps, all equally likely, except
// those that are safe by position ("recent", "sinks"; by default only the newest). An old token has been
// drawn for more often than a new one, so the cache leans to the recent. Every draw comes from the seed, the
// layer, the KV head, the query and the token, and from nothing else: a run repeats exactly, and every window
// of a text is drawn for alike.
#include "src/cache/registry.h"

namespace kvcost {
namespace {

/// SplitMix64's step: neighbouring inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

class RandomEviction : public ContentPolicy {
 public:
  explicit RandomEviction(Knobs& knobs)
      : ContentPolicy(knobs), seed_(static_cast<uint64_t>(knobs.integer("seed", 0, kNever, 0))) {}

  static Description describe() {
    return {"per token: evicts one at random, for each KV head",
            "-",
            content_knobs({{"seed", "-", "another seed draws other tokens (0)"}}),
            {R"({"capacity": 7})", R"({"capacity": 8, "seed": 5, "recent": 3, "sinks": 2})",
             R"({"capacity": 1})"}};
  }

  bool reads_weights() const override { return false; }

  /// memory: a new number in [0, 1) for every token at every query: each is as likely as another to be the
  /// smallest.
  void observe(const CacheShape& shape, const CacheView& view, std::span<double> memory) const override {
    uint64_t step = mix(seed_);
    for (int64_t part : {int64_t{shape.layer}, view.first_kv_head, view.query}) {
      step = mix(step ^ static_cast<uint64_t>(part));
    }
    for (int64_t s = 0; s < view.slots(); ++s) {
      memory[s] = static_cast<double>(mix(step ^ static_cast<uint64_t>(view.positions[s])) >> 11) * 0x1p-53;
    }
  }

 private:
  uint64_t seed_;
};

KVCOST_POLICY("random", RandomEviction);

}  // namespace kvcost
