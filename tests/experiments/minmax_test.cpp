#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/error.h"
#include "src/cache/registry.h"

namespace kvcost {
namespace {

using nlohmann::json;

std::unique_ptr<Codec> codec_of(json object) {
  object["codec"] = "minmax";
  return make_codec(object, "rows[0].keys");
}

std::string error_of(const char* knobs) {
  try {
    codec_of(json::parse(knobs));
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

CacheShape shape_of(int64_t tokens, int64_t kv_heads, int64_t head_dim) {
  CacheShape shape;
  shape.layers = 1, shape.query_heads = kv_heads, shape.kv_heads = kv_heads, shape.head_dim = head_dim;
  shape.tokens = tokens;
  return shape;
}

Holding everything(const CacheShape& shape) {
  const size_t n = static_cast<size_t>(shape.tokens * shape.kv_heads);
  return {std::vector<uint8_t>(n, 1), std::vector<uint8_t>(n, 1)};
}

/// Which group number (t, h, c) is in, by the words of the definition.
std::vector<int64_t> group_key(const json& form, const CacheShape& shape, int64_t t, int64_t h, int64_t c) {
  const std::string axis = form["axis"];
  if (axis == "tensor") return {};
  const int64_t g = form["group"];
  if (axis == "channel") return {t / g, h, c};
  if (g <= shape.head_dim) return {t, h, c / g};
  return {t, (h * shape.head_dim + c) / g};
}

int64_t metadata_bits(const json& form) {
  const int64_t scale = form.value("scales", "fp32") == "fp32" ? 32 : 16;
  if (form.value("symmetric", false)) return scale;
  return scale + (form.value("zero", "offset") == "integer" ? 32 : scale);
}

std::vector<json> forms_to_count() {
  std::vector<json> forms;
  for (const char* axis : {R"({"axis": "token", "group": 8})", R"({"axis": "token", "group": 3})",
                           R"({"axis": "token", "group": 24})", R"({"axis": "token", "group": 11})",
                           R"({"axis": "channel", "group": 4})", R"({"axis": "channel", "group": 100})",
                           R"({"axis": "tensor"})"}) {
    for (const char* kind :
         {R"({"bits": 3})", R"({"bits": 2, "symmetric": true, "scales": "bf16"})",
          R"({"bits": 8, "zero": "integer", "scales": "fp16"})", R"({"bits": 5, "scales": "fp16"})"}) {
      json form = json::parse(axis);
      form.update(json::parse(kind));
      forms.push_back(form);
    }
  }
  return forms;
}

}  // namespace

// Every form against tests/experiments/data/make_minmax.py, an independent NumPy transcription.
TEST(MinMax, EqualsTheGoldensBitForBit) {
  const std::string folder = KVCOST_SOURCE_DIR "/tests/experiments/data/";
  std::ifstream index_file(folder + "minmax.json"), data_file(folder + "minmax.bin", std::ios::binary);
  ASSERT_TRUE(index_file && data_file);
  const json index = json::parse(index_file);
  const CacheShape shape =
      shape_of(index["shape"]["tokens"], index["shape"]["kv_heads"], index["shape"]["head_dim"]);
  auto next = [&] {
    at::Tensor x = at::empty({shape.tokens, shape.kv_heads, shape.head_dim}, at::kFloat);
    data_file.read(static_cast<char*>(x.data_ptr()), x.numel() * 4);
    EXPECT_TRUE(data_file);
    return x;
  };
  const at::Tensor x = next(), bias = next()[0];
  ASSERT_GT(index["forms"].size(), 100u);
  for (const json& form : index["forms"]) {
    auto codec = codec_of(form);
    const CodecInput input{x, bias, shape};
    const at::Tensor got = codec->round(input), want = next();
    for (int64_t i = 0; i < got.numel(); ++i) {
      uint32_t a, b;
      std::memcpy(&a, got.const_data_ptr<float>() + i, 4);
      std::memcpy(&b, want.const_data_ptr<float>() + i, 4);
      ASSERT_EQ(a, b) << form << " number " << i << ": " << got.const_data_ptr<float>()[i] << ", expected "
                      << want.const_data_ptr<float>()[i];
    }
    const std::vector<std::byte> packed = codec->pack(input);
    EXPECT_EQ(std::memcmp(codec->unpack(packed, shape, bias).const_data_ptr(), got.const_data_ptr(),
                          got.numel() * 4),
              0)
        << form;
    EXPECT_EQ(static_cast<int64_t>(packed.size()), (codec->stored_bits(shape, everything(shape)) + 7) / 8)
        << form;
  }
}

// Reads the packed bytes by the documented layout, without the codec, and recomputes x' from them.
TEST(MinMax, PacksStepsThenZerosThenCodes) {
  const CacheShape shape = shape_of(7, 2, 6);
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor x = at::randn({7, 2, 6}, generator, at::TensorOptions(at::kFloat));
  for (int bits = 1; bits <= 8; ++bits) {
    for (const char* axis : {R"({"axis": "token", "group": 4})", R"({"axis": "token", "group": 9})",
                             R"({"axis": "channel", "group": 3})", R"({"axis": "tensor"})"}) {
      json form = json::parse(axis);
      form["bits"] = bits;
      auto codec = codec_of(form);
      const std::vector<std::byte> packed = codec->pack({x, {}, shape});
      const at::Tensor rounded = codec->round({x, {}, shape});
      // Groups in the order in which their first number comes.
      std::vector<std::vector<int64_t>> order;
      std::vector<size_t> group_of;
      for (int64_t i = 0; i < x.numel(); ++i) {
        auto key = group_key(form, shape, i / 12, i / 6 % 2, i % 6);
        auto place = std::find(order.begin(), order.end(), key);
        group_of.push_back(place - order.begin());
        if (place == order.end()) order.push_back(key);
      }
      std::vector<float> grid(2 * order.size());
      ASSERT_GT(packed.size(), grid.size() * 4);
      std::memcpy(grid.data(), packed.data(), grid.size() * 4);
      const auto* codes = reinterpret_cast<const uint8_t*>(packed.data() + grid.size() * 4);
      for (int64_t i = 0; i < x.numel(); ++i) {
        uint32_t code = 0;
        for (int b = 0; b < bits; ++b) {
          const int64_t at = i * bits + b;
          code |= uint32_t(codes[at / 8] >> (at % 8) & 1) << b;
        }
        const float step = grid[group_of[i]], zero = grid[order.size() + group_of[i]];
        const float product = float(code) * step;
        ASSERT_EQ(rounded.const_data_ptr<float>()[i], product + zero) << form << " number " << i;
        ASSERT_LE(std::abs(x.const_data_ptr<float>()[i] - rounded.const_data_ptr<float>()[i]), step * 0.5001f)
            << form;
      }
    }
  }
}

TEST(MinMax, CountsEveryGroupThatHoldsARoundedToken) {
  const CacheShape shape = shape_of(11, 3, 8);
  uint32_t random = 12345;
  for (const json& form : forms_to_count()) {
    auto codec = codec_of(form);
    for (uint32_t one_in : {2u, 5u, 20u}) {
      Holding holding;
      for (int64_t i = 0; i < shape.tokens * shape.kv_heads; ++i) {
        random = random * 1664525 + 1013904223;
        holding.kept.push_back((random >> 16) % one_in == 0);
        holding.rounded.push_back((random >> 24) % 3 != 0);
      }
      std::set<std::vector<int64_t>> groups;
      int64_t numbers = 0;
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        for (int64_t t = 0; t < shape.tokens; ++t) {
          const size_t i = static_cast<size_t>(h * shape.tokens + t);
          if (!holding.kept[i] || !holding.rounded[i]) continue;
          for (int64_t c = 0; c < shape.head_dim; ++c)
            ++numbers, groups.insert(group_key(form, shape, t, h, c));
        }
      }
      EXPECT_EQ(codec->stored_bits(shape, holding),
                numbers * form["bits"].get<int64_t>() + int64_t(groups.size()) * metadata_bits(form))
          << form;
    }
  }
}

TEST(MinMax, LargeWindowsRoundAsSmallOnesDo) {
  // Large enough for several threads and blocks: every token and channel group must come out as it does
  // alone.
  const CacheShape shape = shape_of(1500, 3, 64);
  at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor x = at::randn({1500, 3, 64}, generator, at::TensorOptions(at::kFloat));
  for (const char* knobs :
       {R"({"bits": 4, "axis": "token", "group": 64})", R"({"bits": 3, "axis": "token", "group": 100})",
        R"({"bits": 2, "axis": "channel", "group": 32, "zero": "integer"})"}) {
    auto codec = codec_of(json::parse(knobs));
    const at::Tensor whole = codec->round({x, {}, shape});
    for (int64_t t : {int64_t(0), int64_t(32), int64_t(992), int64_t(1472)}) {
      const int64_t n = std::min<int64_t>(32, 1500 - t);
      const at::Tensor alone = codec->round({x.narrow(0, t, n).contiguous(), {}, shape_of(n, 3, 64)});
      EXPECT_TRUE(at::equal(alone, whole.narrow(0, t, n))) << knobs << " from " << t;
    }
  }
  auto tensor = codec_of(json::parse(R"({"bits": 8, "axis": "tensor"})"));
  const at::Tensor whole = tensor->round({x, {}, shape});
  const float lo = x.min().item<float>(), step = (x.max().item<float>() - lo) / 255.0f;
  EXPECT_TRUE(at::equal(whole, ((x - lo) / step).round() * step + lo));
}

TEST(MinMax, CausalGroupsWaitForTheirLastToken) {
  auto codec = codec_of(json::parse(R"({"bits": 2, "axis": "channel", "group": 4, "groups": "causal"})"));
  std::vector<int32_t> at(6);
  codec->lifetimes(shape_of(6, 1, 8), 3, at);
  EXPECT_EQ(at, (std::vector<int32_t>{6, 6, 6, 6, 10, 10}));
  EXPECT_FALSE(codec->looks_ahead());
}

TEST(MinMax, RefusesFormsThatMeanNothing) {
  EXPECT_EQ(error_of(R"({"bits": 1, "axis": "token", "group": 8, "symmetric": true})"),
            "rows[0].keys.bits: found 1, expected an integer from 2 to 8 with \"symmetric\": 1 bit has no "
            "level above 0");
  EXPECT_EQ(error_of(R"({"bits": 9, "axis": "tensor"})"),
            "rows[0].keys.bits: found 9, expected an integer from 1 to 8");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "token"})"),
            "rows[0].keys.group: found nothing, expected an integer of at least 1");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "tensor", "group": 8})"),
            "rows[0].keys.group: found 8, expected none with axis \"tensor\"");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "token", "group": 8, "groups": "causal"})"),
            "rows[0].keys.groups: found \"causal\", expected none unless axis is \"channel\"");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "token", "group": 8, "symmetric": true, "zero": "integer"})"),
            "rows[0].keys.zero: found \"integer\", expected none with \"symmetric\"");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "token", "group": 8, "clip": 0})"),
            "rows[0].keys.clip: found 0, expected a number above 0, at most 1");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "token", "group": 8, "rope": "after", "bias_removed": true})"),
            "rows[0].keys.rope: found \"after\", expected \"before\" with \"bias_removed\"");
  EXPECT_EQ(error_of(R"({"bits": 4, "axis": "tokens", "group": 8})"),
            "rows[0].keys.axis: unknown 'tokens', did you mean 'token'?");
}

TEST(MinMax, RefusesAGroupWiderThanAToken) {
  auto codec = codec_of(json::parse(R"({"bits": 4, "axis": "token", "group": 25})"));
  EXPECT_NO_THROW(codec->check(shape_of(4, 5, 8)));
  try {
    codec->check(shape_of(4, 3, 8));
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(
        e.what(),
        "rows[0].keys.group: found 25, expected at most 24, the channels of a token (3 KV heads of 8)");
  }
}

}  // namespace kvcost
