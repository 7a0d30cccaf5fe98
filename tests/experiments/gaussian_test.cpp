// The mean squared error of rounding unit Gaussians, which every codec has known figures for: a
// rate-distortion check that no bit-for-bit test against one's own reading of a format can replace.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/codecs.h"

namespace kvcost {
namespace {

struct Known {
  const char* codec;
  const char* knobs;
  double error, bits;
};

void PrintTo(const Known& known, std::ostream* out) { *out << known.codec << " " << known.knobs; }

class Gaussian : public ::testing::TestWithParam<Known> {};

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Codecs, Gaussian,
    ::testing::Values(Known{"minmax", R"({"bits": 4, "axis": "token", "group": 32})", .0061, 6},
                      Known{"minmax", R"({"bits": 3, "axis": "token", "group": 32})", .0282, 5},
                      Known{"minmax", R"({"bits": 2, "axis": "token", "group": 32})", .154, 4},
                      Known{"minmax", R"({"bits": 4, "axis": "token", "group": 64})", .0080, 5},
                      Known{"minmax", R"({"bits": 3, "axis": "token", "group": 64})", .0369, 4},
                      Known{"minmax", R"({"bits": 2, "axis": "token", "group": 64})", .202, 3},
                      Known{"ggml", R"({"type": "q4_0"})", .0074, 4.5}, Known{"nvfp4", "{}", .0090, 4.5},
                      Known{"nvfp4", R"({"second": "token"})", .0090, 5}, Known{"mxfp4", "{}", .0133, 4.25},
                      Known{"fp8", R"({"format": "e4m3fn"})", 7.0e-4, 8},
                      Known{"fp8", R"({"format": "e4m3fn", "scale": "token"})", 6.27e-4, 8.5},
                      Known{"fp8", R"({"format": "e5m2"})", 2.8e-3, 8}));

TEST_P(Gaussian, HasTheKnownError) {
  const at::Tensor x = testing::gaussian({8192, 2, 64}, 1);
  auto codec = testing::codec_of(GetParam().codec, GetParam().knobs);
  const double error = (testing::round(*codec, x) - x).to(at::kDouble).square().mean().item<double>();
  EXPECT_NEAR(error, GetParam().error, 0.02 * GetParam().error);
  const CacheShape shape = testing::shape_of(x);
  EXPECT_EQ(double(codec->stored_bits(shape, testing::everything(shape))),
            GetParam().bits * double(x.numel()));
}

}  // namespace kvcost
