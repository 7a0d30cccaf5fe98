#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codecs.h"

namespace kvcost {
namespace {

using testing::codec_of;

/// By the definition, a search for every number; s in fp32.
at::Tensor by_search(const at::Tensor& x, bool e4m3, const std::string& scale) {
  const std::vector<double> sizes = e4m3 ? testing::e4m3_sizes() : testing::e5m2_sizes();
  auto scale_of = [&](const at::Tensor& numbers) {
    const float largest = std::max(numbers.abs().max().item<float>(), 1e-8f);
    return largest / (e4m3 ? 448.0f : 57344.0f);
  };
  at::Tensor out = at::empty_like(x);
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t h = 0; h < x.size(1); ++h) {
      const float s = scale == "none" ? 1.0f : scale == "tensor" ? scale_of(x) : scale_of(x[t][h]);
      const int64_t row = (t * x.size(1) + h) * x.size(2);
      for (int64_t c = row; c < row + x.size(2); ++c) {
        const float scaled = x.const_data_ptr<float>()[c] / s;
        out.data_ptr<float>()[c] = static_cast<float>(testing::nearest_of(sizes, scaled)) * s;
      }
    }
  }
  return out;
}

}  // namespace

TEST(Fp8, EqualsASearchForTheNearest) {
  for (bool e4m3 : {true, false}) {
    for (const char* scale : {"none", "token", "tensor"}) {
      const std::string knobs =
          fmt::format(R"({{"format": "{}", "scale": "{}"}})", e4m3 ? "e4m3fn" : "e5m2", scale);
      auto codec = codec_of("fp8", knobs.c_str());
      EXPECT_EQ(codec->looks_ahead(), scale == std::string("tensor"));
      for (const at::Tensor& x :
           {testing::hard_numbers(2, 7, 1), testing::gaussian({5, 3, 64}, 2) * 100,
            testing::gaussian({1, 1, 1}, 3), at::zeros({3, 1, 4}), at::empty({0, 2, 8})}) {
        if (x.numel() > 0) {
          EXPECT_TRUE(testing::same_numbers(testing::round(*codec, x), by_search(x, e4m3, scale)))
              << knobs << x.sizes();
        }
        testing::expect_packs(*codec, x, knobs);
      }
    }
  }
}

TEST(Fp8, Saturates) {
  const at::Tensor x = at::tensor({447.0f, 465.0f, -1e30f, 3.4e38f, 1e-30f, -448.0f}).view({1, 1, 6});
  EXPECT_TRUE(at::equal(testing::round(*codec_of("fp8", R"({"format": "e4m3fn"})"), x),
                        at::tensor({448.0f, 448.0f, -448.0f, 448.0f, 0.0f, -448.0f}).view({1, 1, 6})));
  EXPECT_TRUE(at::equal(testing::round(*codec_of("fp8", R"({"format": "e5m2"})"), x),
                        at::tensor({448.0f, 448.0f, -57344.0f, 57344.0f, 0.0f, -448.0f}).view({1, 1, 6})));
  // The largest number there is comes back finite.
  const at::Tensor huge = at::full({1, 1, 3}, std::numeric_limits<float>::max());
  for (const char* knobs :
       {R"({"format": "e4m3fn", "scale": "token"})", R"({"format": "e5m2", "scale": "tensor"})"}) {
    EXPECT_TRUE(at::isfinite(testing::round(*codec_of("fp8", knobs), huge)).all().item<bool>()) << knobs;
  }
}

TEST(Fp8, StoresAByteANumberAndItsScales) {
  const CacheShape shape = testing::shape_of(at::empty({10, 3, 64}));
  auto bits = [&](const char* knobs) {
    return codec_of("fp8", knobs)->stored_bits(shape, testing::everything(shape));
  };
  EXPECT_EQ(bits(R"({"format": "e4m3fn"})"), 8 * 1920);
  EXPECT_EQ(bits(R"({"format": "e4m3fn", "scale": "token"})"), 8 * 1920 + 30 * 32);  // 8.5 bits
  EXPECT_EQ(bits(R"({"format": "e5m2", "scale": "tensor"})"), 8 * 1920 + 32);
}

TEST(Fp8, LargeWindowsRoundAsSmallOnesDo) {
  const at::Tensor x = testing::gaussian({1500, 3, 64}, 4) * 50;
  for (const char* knobs : {R"({"format": "e4m3fn"})", R"({"format": "e5m2", "scale": "token"})"}) {
    auto codec = codec_of("fp8", knobs);
    const at::Tensor whole = testing::round(*codec, x);
    for (int64_t t : {0, 777, 1499}) {
      EXPECT_TRUE(at::equal(testing::round(*codec, x.narrow(0, t, 1).contiguous())[0], whole[t]))
          << knobs << t;
    }
  }
  at::Tensor last = at::ones({1500, 3, 64});
  last[1499][2][63] = -896;
  auto tensor = codec_of("fp8", R"({"format": "e4m3fn", "scale": "tensor"})");
  last.mul_(1.05f);  // 1.05 / (896 * 1.05 / 448) = 1 / 2
  EXPECT_NEAR(testing::round(*tensor, last)[0][0][0].item<float>(), 1.05f, 1e-6f);
}

TEST(Fp8, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(testing::codec_error("fp8", R"({"format": "e4m3"})"),
            "rows[0].keys.format: unknown 'e4m3', did you mean 'e4m3fn'?");
  EXPECT_EQ(testing::codec_error("fp8", R"({"format": "e5m2", "scale": "channel"})")
                .rfind("rows[0].keys.scale: ", 0),
            0u);
  EXPECT_NE(testing::codec_error("fp8", "{}"), "accepted");
}

}  // namespace kvcost
