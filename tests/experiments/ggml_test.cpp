#include <gtest/gtest.h>

#include <cmath>

#include "src/model/formats/safetensors.h"
#include "src/model/formats/tensor_type.h"
#include "tests/support/codecs.h"

namespace kvcost {
namespace {

struct CacheType {
  const char* name;
  TensorType type;
};

const CacheType kTypes[] = {{"q8_0", TensorType::Q8_0},
                            {"q5_1", TensorType::Q5_1},
                            {"q5_0", TensorType::Q5_0},
                            {"q4_1", TensorType::Q4_1},
                            {"q4_0", TensorType::Q4_0}};

std::unique_ptr<Codec> codec_of(const char* type) {
  return testing::codec_of("ggml", fmt::format(R"({{"type": "{}"}})", type).c_str());
}

/// What the loader of quantized weights makes of the blocks.
at::Tensor loaded(TensorType type, std::span<const std::byte> blocks, const at::Tensor& like) {
  at::Tensor out = at::empty_like(like);
  dequantize(type, blocks.data(), out.numel(), out.data_ptr<float>());
  return out;
}

}  // namespace

// The blocks come from gguf-py by data/make_ggml.py.
TEST(Ggml, EqualsGgufPyBitForBit) {
  auto goldens = SafetensorsFile::open(KVCOST_SOURCE_DIR "/tests/experiments/data/ggml.safetensors");
  const at::Tensor x = at::tensor(goldens.numbers<float>("x")).view(goldens.tensor("x").shape);
  for (const auto& [name, type] : kTypes) {
    auto codec = codec_of(name);
    const std::span<const std::byte> want = goldens.bytes(std::string(name) + ".blocks");
    const std::vector<std::byte> got = testing::pack(*codec, x);
    ASSERT_EQ(got.size(), want.size()) << name;
    const size_t block = static_cast<size_t>(info(type).block_bytes);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::to_integer<int>(got[i]), std::to_integer<int>(want[i]))
          << name << " block " << i / block << " byte " << i % block;
    }
    EXPECT_TRUE(testing::same_numbers(testing::round(*codec, x), loaded(type, want, x))) << name;
    EXPECT_TRUE(testing::same_numbers(codec->unpack(want, testing::shape_of(x), {}), loaded(type, want, x)))
        << name;
  }
}

TEST(Ggml, PacksWhatTheLoaderOfWeightsReads) {
  for (const auto& [name, type] : kTypes) {
    auto codec = codec_of(name);
    EXPECT_FALSE(codec->looks_ahead());
    for (const at::Tensor& x : {testing::hard_numbers(2, 64, 1), testing::hard_numbers(1, 32, 2),
                                testing::gaussian({1, 5, 96}, 3), at::empty({0, 2, 32})}) {
      testing::expect_packs(*codec, x, name);
      EXPECT_TRUE(testing::same_numbers(testing::round(*codec, x), loaded(type, testing::pack(*codec, x), x)))
          << name;
    }
  }
}

TEST(Ggml, IsOffByAtMostItsStep) {
  const at::Tensor x = testing::gaussian({200, 2, 64}, 4).view({-1, 32});
  const at::Tensor largest = std::get<0>(x.abs().max(1, true)),
                   range = std::get<0>(x.max(1, true)) - std::get<0>(x.min(1, true));
  auto off = [&](const char* type, const at::Tensor& step) {
    const at::Tensor rounded = testing::round(*codec_of(type), x.view({200, 2, 64})).view({-1, 32});
    return ((rounded - x).abs() / step).max().item<float>();
  };
  // Half a step, and what fp16 takes from the scale; on the far side of 0 q4_0 and q5_0 saturate at a whole
  // one.
  EXPECT_NEAR(off("q8_0", largest / 127), 0.5f, 0.07f);
  EXPECT_NEAR(off("q5_1", range / 31), 0.5f, 0.03f);
  EXPECT_NEAR(off("q4_1", range / 15), 0.5f, 0.02f);
  EXPECT_NEAR(off("q5_0", largest / 16), 1.0f, 0.2f);
  EXPECT_NEAR(off("q4_0", largest / 8), 1.0f, 0.2f);
}

TEST(Ggml, TakesWhatItsBlocksTake) {
  const CacheShape shape = testing::shape_of(at::empty({10, 3, 64}));
  auto bits = [&](const char* type) {
    return codec_of(type)->stored_bits(shape, testing::everything(shape));
  };
  EXPECT_EQ(bits("q8_0"), 1920 * 17 / 2);
  EXPECT_EQ(bits("q5_1"), 1920 * 6);
  EXPECT_EQ(bits("q5_0"), 1920 * 11 / 2);
  EXPECT_EQ(bits("q4_1"), 1920 * 5);
  EXPECT_EQ(bits("q4_0"), 1920 * 9 / 2);
}

TEST(Ggml, ABlockWithANaNIsNaNAndNoOther) {
  for (const auto& [name, type] : kTypes) {
    at::Tensor x = testing::gaussian({2, 1, 64}, 5);
    x[1][0][40] = -INFINITY;
    const at::Tensor out = testing::round(*codec_of(name), x);
    EXPECT_TRUE(at::isfinite(out[0]).all().item<bool>()) << name;
    EXPECT_TRUE(at::isfinite(out[1][0].narrow(0, 0, 32)).all().item<bool>()) << name;
    EXPECT_TRUE(at::isnan(out[1][0].narrow(0, 32, 32)).all().item<bool>()) << name;
  }
}

TEST(Ggml, RefusesHeadsThatAreNotWholeBlocks) {
  EXPECT_NO_THROW(codec_of("q4_0")->check(testing::shape_of(at::empty({1, 1, 96}))));
  try {
    codec_of("q4_0")->check(testing::shape_of(at::empty({1, 1, 80})));
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_STREQ(
        e.what(),
        "rows[0].keys.type: found q4_0 with heads of 80 channels, expected a multiple of 32, ggml's block");
  }
  EXPECT_EQ(testing::codec_error("ggml", R"({"type": "q4_2"})").rfind("rows[0].keys.type: unknown 'q4_2'", 0),
            0u);
}

}  // namespace kvcost
