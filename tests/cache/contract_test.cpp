// What every registered policy and codec must keep, run over all their examples and over rows that combine
// them. A new experiment needs no line here.
#include <gtest/gtest.h>

#include <cstring>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "src/cache/row_cache.h"
#include "tests/support/dense_attention.h"
#include "tests/support/layers.h"
#include "tests/support/renumbered.h"

namespace kvcost {
namespace {

using nlohmann::json;
using testing::dense_attention;
using testing::prefix_of;
using testing::random_layer;
using testing::renumbered_attention;
using testing::SeenToken;
using testing::small_shape;

struct Row {
  std::string name;
  json row;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.row.dump(); }

json with_name(const char* key, const std::string& name, const std::string& knobs) {
  json object = json::parse(knobs);
  object[key] = name;
  return object;
}

/// Two rows for each example of each policy: positions original and renumbered.
std::vector<Row> policy_rows() {
  std::vector<Row> rows;
  for (const auto& entry : policies()) {
    for (const std::string& knobs : entry.description.examples) {
      json row = {{"evict", with_name("policy", entry.name, knobs)}};
      rows.push_back({fmt::format("{}_{}", entry.name, rows.size()), row});
      row["evict"]["positions"] = "cache";
      rows.push_back({fmt::format("{}_{}_renumbered", entry.name, rows.size()), row});
    }
  }
  return rows;
}

bool renumbered(const json& row) { return row["evict"].value("positions", "original") == "cache"; }

/// One row for each example of each codec: as keys, and as values if it can round them.
std::vector<Row> codec_rows() {
  std::vector<Row> rows;
  for (const auto& entry : codecs()) {
    for (const std::string& knobs : entry.description.examples) {
      json codec = with_name("codec", entry.name, knobs);
      json row = {{"keys", codec}};
      if (!make_codec(codec, "codec")->before_rope()) row["values"] = codec;
      rows.push_back({fmt::format("{}_{}", entry.name, rows.size()), row});
      // Some with a window of exact tokens, odd and longer than a group.
      row["exact_last"] = rows.size() % 2 == 0 ? 9 : 3;
      rows.push_back({fmt::format("{}_{}_exact_last", entry.name, rows.size()), row});
    }
  }
  return rows;
}

/// Every policy with some codec, every codec with some policy. Where positions are renumbered, keys are
/// rounded before RoPE.
std::vector<Row> mixed_rows() {
  std::vector<Row> rows;
  std::vector<Row> evicting = policy_rows(), rounding = codec_rows(), before;
  for (const Row& row : rounding) {
    if (make_codec(row.row["keys"], "codec")->before_rope()) before.push_back(row);
  }
  if (evicting.empty() || rounding.empty()) return rows;
  for (size_t i = 0; i < 2 * std::max(evicting.size(), rounding.size()); ++i) {
    const json& evict = evicting[i % evicting.size()].row["evict"];
    json row = rounding[i % rounding.size()].row;
    row["evict"] = evict;
    if (renumbered(row)) {
      row.erase("keys");
      if (!before.empty()) row["keys"] = before[i / 2 % before.size()].row["keys"];
      if (!row.contains("keys") && !row.contains("values")) row.erase("exact_last");
    }
    rows.push_back({fmt::format("mixed_{}", i), row});
  }
  return rows;
}

std::vector<Row> all_rows() {
  std::vector<Row> rows = policy_rows();
  for (const Row& row : codec_rows()) rows.push_back(row);
  for (const Row& row : mixed_rows()) rows.push_back(row);
  return rows;
}

/// small_shape(), or with heads of 32 channels where the row's codecs refuse 16.
CacheShape shape_for(const Row& row, int64_t tokens = small_shape().tokens) {
  CacheShape shape = small_shape(tokens);
  for (const char* side : {"keys", "values"}) {
    if (!row.row.contains(side)) continue;
    try {
      make_codec(row.row[side], side)->check(shape);
    } catch (const InputError&) {
      shape.head_dim = 32;
    }
  }
  return shape;
}

at::Tensor attention(const LayerInput& input, const CachedTokens& cache) {
  if (cache.attended.defined()) return cache.attended;
  at::Tensor out = at::empty_like(input.q);
  attend(input.q, input.first_query, cache, out);
  return out;
}

CachedTokens full_cache(const LayerInput& input) {
  CachedTokens cache;
  cache.k = input.k, cache.v = input.v;
  return cache;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.numel() * a.element_size()) == 0;
}

int32_t lifetime(const at::Tensor& lifetimes, int64_t head, int64_t token, int32_t otherwise) {
  return lifetimes.defined() ? lifetimes[head][token].item<int32_t>() : otherwise;
}

class EveryRow : public ::testing::TestWithParam<Row> {};

class EveryPolicy : public ::testing::TestWithParam<Row> {};

class EveryCodec : public ::testing::TestWithParam<Row> {};

std::string name_of(const ::testing::TestParamInfo<Row>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Contract, EveryRow, ::testing::ValuesIn(all_rows()), name_of);
INSTANTIATE_TEST_SUITE_P(Contract, EveryPolicy, ::testing::ValuesIn(policy_rows()), name_of);
INSTANTIATE_TEST_SUITE_P(Contract, EveryCodec, ::testing::ValuesIn(codec_rows()), name_of);

TEST(Contract, EveryEntryHasExamples) {
  for (const auto& entry : policies()) EXPECT_FALSE(entry.description.examples.empty()) << entry.name;
  for (const auto& entry : codecs()) EXPECT_FALSE(entry.description.examples.empty()) << entry.name;
  EXPECT_FALSE(policies().empty());
  EXPECT_FALSE(codecs().empty());
}

// Decodes token by token with a real cache a KV head: tokens enter exact, are rounded from what has come so
// far, leave and never come back. One pass over the window must give the same attention.
TEST_P(EveryRow, OnePassEqualsTokenByToken) {
  const CacheShape shape = shape_for(GetParam());
  const LayerInput input = random_layer(shape, 1);
  RowCache whole(GetParam().row, "row");
  whole.begin(shape);
  if (whole.looks_ahead()) GTEST_SKIP() << "looks ahead";
  const CachedTokens cache = whole(input);
  const at::Tensor out = attention(input, cache);

  const int64_t d = shape.head_dim, group = shape.query_heads / shape.kv_heads;
  std::vector<std::vector<int64_t>> kept(shape.kv_heads);
  for (int64_t i = 0; i < shape.tokens; ++i) {
    CacheShape so_far = shape;
    so_far.tokens = i + 1;
    const LayerInput now = prefix_of(input, i + 1);
    RowCache step(GetParam().row, "row");
    step.begin(so_far);
    const CachedTokens held = step(now);
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      kept[h].push_back(i);
      // Gone for good: only what is still in this list can be seen.
      std::erase_if(kept[h], [&](int64_t j) { return lifetime(held.evicted_at, h, j, kNever) <= i; });
      ASSERT_TRUE(!kept[h].empty() && kept[h].back() == i) << "query " << i << " does not see itself";
      std::vector<SeenToken> seen;
      for (int64_t j : kept[h]) {
        if (whole.renumbered()) break;
        bool k_rounded = held.k_rounded.defined() && i >= lifetime(held.k_rounded_at, h, j, 0);
        bool v_rounded = held.v_rounded.defined() && i >= lifetime(held.v_rounded_at, h, j, 0);
        const int64_t at = (j * shape.kv_heads + h) * d;
        seen.push_back({(k_rounded ? held.k_rounded : held.k).const_data_ptr<float>() + at,
                        (v_rounded ? held.v_rounded : held.v).const_data_ptr<float>() + at});
      }
      for (int64_t g = 0; g < group; ++g) {
        const int64_t row = (i * shape.query_heads + h * group + g) * d;
        std::vector<double> want = whole.renumbered()
                                       ? renumbered_attention(shape, now, held, h * group + g, i, kept[h])
                                       : dense_attention(input.q.const_data_ptr<float>() + row, seen, d);
        for (int64_t c = 0; c < d; ++c) {
          ASSERT_NEAR(out.const_data_ptr<float>()[row + c], want[c], 2e-5) << "query " << i << " head " << h;
        }
      }
    }
  }
}

TEST_P(EveryRow, NothingDependsOnLaterTokens) {
  const CacheShape shape = shape_for(GetParam());
  const LayerInput input = random_layer(shape, 2), other = random_layer(shape, 3);
  RowCache row(GetParam().row, "row");
  row.begin(shape);
  if (row.looks_ahead()) GTEST_SKIP() << "looks ahead";
  const CachedTokens before = row(input);
  const at::Tensor out = attention(input, before);
  for (int64_t cut : {1, 12, 20, 36}) {
    LayerInput changed = prefix_of(input, shape.tokens);
    changed.q.narrow(0, cut, shape.tokens - cut).copy_(other.q.narrow(0, cut, shape.tokens - cut));
    changed.v.narrow(0, cut, shape.tokens - cut).copy_(other.v.narrow(0, cut, shape.tokens - cut));
    changed.k_unrotated.narrow(0, cut, shape.tokens - cut)
        .copy_(other.k_unrotated.narrow(0, cut, shape.tokens - cut));
    changed.k = changed.k_unrotated.clone();
    rotate(changed.k, changed.cos, changed.sin);
    const CachedTokens after = row(changed);
    EXPECT_TRUE(same_bits(out.narrow(0, 0, cut), attention(changed, after).narrow(0, 0, cut)))
        << "cut " << cut;
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      for (int64_t j = 0; j < cut; ++j) {
        const int32_t a = lifetime(before.evicted_at, h, j, kNever),
                      b = lifetime(after.evicted_at, h, j, kNever);
        // A decision after the query at cut - 1 shows from query `cut` on.
        EXPECT_TRUE(a == b || (a > cut && b > cut)) << "token " << j << " left at " << a << ", then " << b;
      }
    }
  }
}

TEST_P(EveryRow, SeesTheFullCacheUpToSameUntil) {
  const CacheShape shape = shape_for(GetParam());
  const LayerInput input = random_layer(shape, 4);
  RowCache row(GetParam().row, "row");
  row.begin(shape);
  const CachedTokens cache = row(input);
  const int64_t until = row.same_until();
  ASSERT_LE(until, shape.tokens);
  const at::Tensor full = attention(input, full_cache(input));
  const at::Tensor all = attention(input, cache);
  auto apart = [](const at::Tensor& a, const at::Tensor& b) {
    return a.numel() == 0 ? 0 : (a - b).abs().max().item<float>();
  };
  EXPECT_LE(apart(full.narrow(0, 0, until), all.narrow(0, 0, until)), 1e-5f);
  // And a pass that starts there reads the same.
  if (until == shape.tokens) return;
  LayerInput rest = input;
  rest.first_query = until, rest.q = input.q.narrow(0, until, shape.tokens - until).contiguous();
  const at::Tensor later = attention(rest, row(rest));
  EXPECT_LE(apart(later, all.narrow(0, until, shape.tokens - until)), 1e-5f);
}

TEST_P(EveryRow, CountsWhatItHolds) {
  const CacheShape shape = shape_for(GetParam());
  const LayerInput input = random_layer(shape, 5);
  RowCache row(GetParam().row, "row");
  row.begin(shape);
  const CachedTokens cache = row(input);
  const CacheReport report = row.report();

  double seen = 0, queries = 0;
  bool evicted = false, changed = false;
  int64_t kept = 0, bits = 0;
  Holding keys, values;
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t i = 0; i < shape.tokens; ++i) {
      const bool counted = i >= shape.prompt - 1 && i <= shape.tokens - 2;
      queries += counted;
      for (int64_t j = 0; j <= i; ++j) {
        const bool sees = i < lifetime(cache.evicted_at, h, j, kNever);
        seen += counted && sees;
        evicted = evicted || !sees;
        auto reads_another = [&](const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& at) {
          return sees && rounded.defined() && i >= lifetime(at, h, j, 0) &&
                 !at::equal(exact[j][h], rounded[j][h]);
        };
        changed = changed || reads_another(cache.k, cache.k_rounded, cache.k_rounded_at) ||
                  reads_another(cache.v, cache.v_rounded, cache.v_rounded_at);
      }
    }
    for (int64_t j = 0; j < shape.tokens; ++j) {
      const bool held = lifetime(cache.evicted_at, h, j, kNever) >= shape.tokens;
      auto side = [&](Holding& holding, const at::Tensor& rounded, const at::Tensor& at) {
        holding.kept.push_back(held);
        holding.rounded.push_back(rounded.defined() && lifetime(at, h, j, 0) < shape.tokens);
        if (held && !holding.rounded.back()) bits += 16 * shape.head_dim;
      };
      side(keys, cache.k_rounded, cache.k_rounded_at);
      side(values, cache.v_rounded, cache.v_rounded_at);
      kept += held;
    }
  }
  if (row.key_codec()) bits += row.key_codec()->stored_bits(shape, keys);
  if (row.value_codec()) bits += row.value_codec()->stored_bits(shape, values);
  EXPECT_DOUBLE_EQ(report.tokens_kept, seen / queries);
  EXPECT_DOUBLE_EQ(report.stored_bytes_per_token, double(bits) / 8 / double(shape.tokens));
  EXPECT_DOUBLE_EQ(report.effective_bits, double(bits) / double(2 * kept * shape.head_dim));
  EXPECT_EQ(report.evicted, evicted);
  EXPECT_EQ(report.changed, changed);
}

TEST_P(EveryPolicy, SeesAtMostItsCapacity) {
  const CacheShape shape = shape_for(GetParam());
  const LayerInput input = random_layer(shape, 6);
  RowCache row(GetParam().row, "row");
  row.begin(shape);
  const CachedTokens cache = row(input);
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t i = 0; i < shape.tokens; ++i) {
      int64_t seen = 0;
      for (int64_t j = 0; j <= i; ++j) seen += i < lifetime(cache.evicted_at, h, j, kNever);
      ASSERT_LE(seen, row.policy()->capacity()) << "query " << i;
      ASSERT_LT(i, lifetime(cache.evicted_at, h, i, kNever)) << "query " << i << " does not see itself";
    }
  }
}

TEST_P(EveryPolicy, WithRoomForAllIsTheFullCache) {
  const CacheShape shape = shape_for(GetParam());
  const LayerInput input = random_layer(shape, 7);
  const at::Tensor full = attention(input, full_cache(input));
  json object = GetParam().row;
  for (int64_t capacity : {shape.tokens, shape.tokens + 1, int64_t(kNever)}) {
    if (object["evict"].contains("capacity")) object["evict"]["capacity"] = capacity;
    RowCache row(object, "row");
    row.begin(shape);
    const at::Tensor all = attention(input, row(input));
    if (row.renumbered()) {
      EXPECT_LE((full - all).abs().max().item<float>(), 1e-5f) << capacity;  // other sums, in another order
    } else {
      EXPECT_TRUE(same_bits(full, all)) << capacity;
    }
    EXPECT_TRUE(row.report().no_effect()) << capacity;
  }
}

TEST_P(EveryPolicy, RefusesWhatItDoesNotKnow) {
  const json good = GetParam().row["evict"];
  auto error = [&](const char* knob, const json& value) {
    json bad = good;
    bad[knob] = value;
    try {
      make_policy(bad, "rows[3].evict");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(error("capasity", 3).rfind("rows[3].evict.capasity: unknown setting", 0), 0u)
      << error("capasity", 3);
  EXPECT_EQ(error("positions", "cached").rfind("rows[3].evict.positions: unknown 'cached'", 0), 0u);
  if (!good.contains("capacity")) return;
  for (const json& value : {json(0), json(-1), json(1.5), json("many"), json(nullptr)}) {
    EXPECT_EQ(error("capacity", value).rfind("rows[3].evict.capacity: found " + value.dump(), 0), 0u)
        << value;
  }
}

TEST_P(EveryCodec, RefusesWhatItDoesNotKnow) {
  json bad = GetParam().row["keys"];
  bad["bitz"] = 3;
  try {
    make_codec(bad, "rows[3].keys");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()).rfind("rows[3].keys.bitz: unknown setting", 0), 0u) << e.what();
  }
}

TEST_P(EveryCodec, PacksWhatItRounds) {
  for (int64_t tokens : {1, 6, 37}) {
    const CacheShape shape = shape_for(GetParam(), tokens);
    const LayerInput input = random_layer(shape, 8);
    for (const char* side : {"keys", "values"}) {
      if (!GetParam().row.contains(side)) continue;
      auto codec = make_codec(GetParam().row[side], side);
      const CodecInput x{side == std::string("values") ? input.v : input.k_unrotated, input.k_bias, shape};
      const at::Tensor rounded = codec->round(x);
      const std::vector<std::byte> packed = codec->pack(x);
      EXPECT_TRUE(same_bits(codec->unpack(packed, shape, x.bias), rounded));
      const size_t all = static_cast<size_t>(shape.kv_heads * tokens);
      const int64_t bits =
          codec->stored_bits(shape, {std::vector<uint8_t>(all, 1), std::vector<uint8_t>(all, 1)});
      EXPECT_EQ(static_cast<int64_t>(packed.size()), (bits + 7) / 8);
      // Nothing rounded, or nothing kept, is nothing stored.
      EXPECT_EQ(codec->stored_bits(shape, {std::vector<uint8_t>(all, 1), std::vector<uint8_t>(all, 0)}), 0);
      EXPECT_EQ(codec->stored_bits(shape, {std::vector<uint8_t>(all, 0), std::vector<uint8_t>(all, 1)}), 0);
      std::vector<std::byte> longer = packed;
      longer.push_back(std::byte{0});
      EXPECT_THROW(codec->unpack(longer, shape, x.bias), InputError);
      EXPECT_THROW(codec->unpack({packed.data(), packed.size() - 1}, shape, x.bias), InputError);
      EXPECT_THROW(codec->unpack({}, shape, x.bias), InputError);
    }
  }
}

TEST_P(EveryCodec, KeepsHardNumbersFinite) {
  const CacheShape shape = shape_for(GetParam());
  auto codec = make_codec(GetParam().row["keys"], "keys");
  auto finite = [&](const at::Tensor& x) {
    const CodecInput input{x, {}, shape};
    const at::Tensor rounded = codec->round(input);
    return at::isfinite(rounded).all().item<bool>() &&
           same_bits(codec->unpack(codec->pack(input), shape, {}), rounded);
  };
  at::Tensor x = at::zeros({shape.tokens, shape.kv_heads, shape.head_dim}, at::kFloat);
  EXPECT_TRUE(finite(x));
  EXPECT_TRUE(finite(x + 5.25));
  EXPECT_TRUE(finite(x - 1e-40));                  // denormals, all the same
  EXPECT_TRUE(finite(at::randn_like(x) * 1e-42));  // and not
  EXPECT_TRUE(finite(at::randn_like(x) * 1e-9));   // ranges below the smallest step
  EXPECT_TRUE(finite(at::randn_like(x) * 1e-3 + 3000));
  EXPECT_TRUE(finite(at::randn_like(x) * 1000));
}

// A NaN must reach the check that stops the row, and must not be undefined behaviour on the way.
TEST_P(EveryCodec, ShowsNaN) {
  const CacheShape shape = shape_for(GetParam());
  auto codec = make_codec(GetParam().row["keys"], "keys");
  const LayerInput input = random_layer(shape, 9);
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    at::Tensor x = input.k_unrotated.clone();
    x[5][1][3] = bad;
    const CodecInput with_bad{x, input.k_bias, shape};
    EXPECT_FALSE(at::isfinite(codec->round(with_bad)).all().item<bool>()) << bad;
    codec->unpack(codec->pack(with_bad), shape, input.k_bias);
  }
}

TEST_P(EveryCodec, LifetimesAreOldEnough) {
  const CacheShape shape = shape_for(GetParam());
  auto codec = make_codec(GetParam().row["keys"], "keys");
  std::vector<int32_t> at(shape.tokens);
  for (int64_t exact_last : {0, 1, 5, 36, 37, 1000}) {
    codec->lifetimes(shape, exact_last, at);
    for (int64_t j = 0; j < shape.tokens; ++j) {
      // With R newest tokens exact, query j + R - 1 still reads j exact.
      EXPECT_GE(at[j], exact_last == 0 ? 0 : j + exact_last);
      EXPECT_TRUE(j == 0 || at[j] >= at[j - 1]) << "a newer token is rounded before an older one";
    }
  }
}

}  // namespace kvcost
