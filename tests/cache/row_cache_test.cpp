#include "src/cache/row_cache.h"

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "tests/support/layers.h"

namespace kvcost {
namespace {

using nlohmann::json;
using testing::random_layer;
using testing::small_shape;

std::string error_of(const char* row) {
  try {
    RowCache cache(json::parse(row), "rows[2]");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST(RowCache, WithNothingInTheRowIsTheFullCache) {
  CacheShape shape = small_shape();
  shape.layers = 2;
  RowCache row(json::object(), "row");
  row.begin(shape);
  EXPECT_EQ(row.same_until(), shape.tokens);
  for (int layer = 0; layer < 2; ++layer) {
    LayerInput input = random_layer(shape, 1);
    input.layer = layer;
    const CachedTokens cache = row(input);
    EXPECT_EQ(cache.k.data_ptr(), input.k.data_ptr()) << "copied";
    EXPECT_FALSE(cache.k_rounded.defined() || cache.v_rounded.defined() || cache.evicted_at.defined());
    if (layer == 0) {
      EXPECT_THROW(row.report(), Failure);
    }
  }
  const CacheReport report = row.report();
  EXPECT_TRUE(report.no_effect());
  EXPECT_EQ(report.effective_bits, 16);
  EXPECT_EQ(report.stored_bytes_per_token, 2 * 2 * 2 * 16 * 2);  // layers, sides, KV heads, channels, bytes
  // Queries 10 to 35 see 11 to 36 tokens.
  EXPECT_EQ(report.tokens_kept, (11 + 36) / 2.0);
}

TEST(RowCache, CountsBitsByHand) {
  // 4 sinks and 8 newest of 37 tokens; of keys the 3 newest exact, the rest 2 bits in groups of 8 channels.
  RowCache row(json::parse(R"({"evict": {"policy": "sinks", "capacity": 12},
                               "keys": {"codec": "minmax", "bits": 2, "axis": "token", "group": 8, "scales": "fp16"},
                               "exact_last": 3})"),
               "row");
  const CacheShape shape = small_shape();
  row.begin(shape);
  row(random_layer(shape, 2));
  const CacheReport report = row.report();
  const double exact = 2 * 16 * 16, rounded = 2 * (16 * 2 + 2 * 32);  // a token's bits, both KV heads
  EXPECT_DOUBLE_EQ(report.stored_bytes_per_token, (12 * exact + 3 * exact + 9 * rounded) / 8 / 37);
  EXPECT_DOUBLE_EQ(report.effective_bits, (15 * exact + 9 * rounded) / (2 * 12 * 32));
  EXPECT_EQ(row.same_until(), 3);
}

TEST(RowCache, KnowsTheFirstQueryThatCanDiffer) {
  const CacheShape shape = small_shape();
  auto until = [&](const char* text) {
    RowCache row(json::parse(text), "row");
    row.begin(shape);
    return row.same_until();
  };
  EXPECT_EQ(until(R"({"evict": {"policy": "window", "capacity": 9}})"), 9);
  EXPECT_EQ(until(R"({"evict": {"policy": "window", "capacity": 99}})"), 37);
  EXPECT_EQ(until(R"({"evict": {"policy": "full"}})"), 37);
  EXPECT_EQ(until(R"({"values": {"codec": "minmax", "bits": 2, "axis": "tensor"}})"), 0);
  EXPECT_EQ(until(R"({"values": {"codec": "minmax", "bits": 2, "axis": "tensor"}, "exact_last": 5})"), 5);
  EXPECT_EQ(
      until(R"({"keys": {"codec": "minmax", "bits": 2, "axis": "channel", "group": 8, "groups": "causal"},
                      "exact_last": 5})"),
      12);
  EXPECT_EQ(
      until(R"({"keys": {"codec": "minmax", "bits": 2, "axis": "channel", "group": 8, "groups": "causal"}})"),
      7);
  EXPECT_EQ(until(R"({"evict": {"policy": "window", "capacity": 9},
                      "values": {"codec": "minmax", "bits": 2, "axis": "tensor"}, "exact_last": 36})"),
            9);
}

TEST(RowCache, RowsThatChangeNothingSaySo) {
  const CacheShape shape = small_shape();
  LayerInput input = random_layer(shape, 3);
  auto report = [&](const char* text) {
    RowCache row(json::parse(text), "row");
    row.begin(shape);
    row(input);
    return row.report();
  };
  // Rounded only once all are too old to be seen.
  EXPECT_TRUE(report(R"({"values": {"codec": "minmax", "bits": 2, "axis": "tensor"}, "exact_last": 37})")
                  .no_effect());
  EXPECT_TRUE(report(R"({"evict": {"policy": "window", "capacity": 6},
                         "values": {"codec": "minmax", "bits": 2, "axis": "tensor"}, "exact_last": 6})")
                  .evicted);
  EXPECT_FALSE(report(R"({"evict": {"policy": "window", "capacity": 6},
                          "values": {"codec": "minmax", "bits": 2, "axis": "tensor"}, "exact_last": 6})")
                   .changed);
  EXPECT_TRUE(
      report(R"({"values": {"codec": "minmax", "bits": 2, "axis": "tensor"}, "exact_last": 36})").changed);
  // Whole numbers that 8 bits hold exactly.
  input.v = at::arange(shape.tokens * 32, at::kFloat).remainder(256).reshape(input.v.sizes()).contiguous();
  EXPECT_TRUE(report(R"({"values": {"codec": "minmax", "bits": 8, "axis": "tensor"}})").no_effect());
}

TEST(RowCache, RoundsKeysBeforeRopeAndRotatesThem) {
  const CacheShape shape = small_shape();
  const LayerInput input = random_layer(shape, 4);
  RowCache row(
      json::parse(
          R"({"keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": 16, "bias_removed": true}})"),
      "row");
  row.begin(shape);
  const CachedTokens cache = row(input);
  const at::Tensor x = input.k_unrotated - input.k_bias;
  const at::Tensor lo = x.amin(-1, true), step = (x.amax(-1, true) - lo) / 15.0f;
  at::Tensor want = ((x - lo) / step).round() * step + lo + input.k_bias;
  rotate(want, input.cos, input.sin);
  EXPECT_TRUE(at::equal(cache.k_rounded, want));
}

TEST(RowCache, RenumbersOnlyKeysThatAreStoredBeforeRope) {
  EXPECT_EQ(error_of(R"({"evict": {"policy": "window", "capacity": 4, "positions": "cache"},
                         "keys": {"codec": "minmax", "bits": 4, "axis": "tensor"}})"),
            "rows[2].keys: found a codec that works after RoPE, expected \"rope\": \"before\": with "
            "\"positions\": \"cache\" keys are stored before it");
  EXPECT_EQ(error_of(R"({"evict": {"policy": "window", "capacity": 4, "positions": "cache"},
                         "keys": {"codec": "minmax", "bits": 4, "axis": "tensor", "rope": "before"},
                         "values": {"codec": "minmax", "bits": 4, "axis": "tensor"}})"),
            "accepted");
}

TEST(RowCache, RefusesRowsByPath) {
  EXPECT_EQ(error_of(R"({"evict": {"policy": "windo", "capacity": 4}})"),
            "rows[2].evict.policy: unknown 'windo', did you mean 'window'?");
  EXPECT_EQ(error_of(R"({"exact_last": 4})"),
            "rows[2].exact_last: found 4, expected none without a codec for \"keys\" or \"values\"");
  EXPECT_EQ(error_of(R"({"values": {"codec": "minmax", "bits": 4, "axis": "tensor", "rope": "before"}})"),
            "rows[2].values: found a codec that works before RoPE, expected one after: values have no RoPE");
  EXPECT_EQ(error_of(R"({"evict": {"policy": "sinks", "capacity": 4}})"),
            "rows[2].evict.sinks: found nothing, expected an integer from 0 to 3 (4 if not given)");
}

}  // namespace kvcost
