#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/cache/registry.h"

namespace kvcost::testing {

inline std::unique_ptr<Codec> codec_of(const std::string& name, const char* knobs) {
  nlohmann::json object = nlohmann::json::parse(knobs);
  object["codec"] = name;
  return make_codec(object, "rows[0].keys");
}

/// What the codec says of knobs it refuses, "accepted" otherwise.
inline std::string codec_error(const std::string& name, const char* knobs) {
  try {
    codec_of(name, knobs);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

inline CacheShape shape_of(const at::Tensor& x) {
  CacheShape shape;
  shape.layers = 1, shape.query_heads = shape.kv_heads = x.size(1), shape.head_dim = x.size(2);
  shape.tokens = x.size(0);
  return shape;
}

inline at::Tensor round(const Codec& codec, const at::Tensor& x) { return codec.round({x, {}, shape_of(x)}); }
inline std::vector<std::byte> pack(const Codec& codec, const at::Tensor& x) {
  return codec.pack({x, {}, shape_of(x)});
}

inline Holding everything(const CacheShape& shape) {
  const auto n = static_cast<size_t>(shape.tokens * shape.kv_heads);
  return {std::vector<uint8_t>(n, 1), std::vector<uint8_t>(n, 1)};
}

/// Equal in every bit, but for which NaN a NaN is.
inline bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  const float *p = a.const_data_ptr<float>(), *q = b.const_data_ptr<float>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (std::memcmp(p + i, q + i, 4) != 0 && (p[i] == p[i] || q[i] == q[i])) return false;
  }
  return true;
}

inline at::Tensor gaussian(at::IntArrayRef size, uint64_t seed) {
  return at::randn(size, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat));
}

/// Tokens of every size that fp32 has, heads in turn: what codecs stumble over. [tokens, kv_heads, head_dim]
inline at::Tensor hard_numbers(int64_t kv_heads, int64_t head_dim, uint64_t seed) {
  at::Tensor x = gaussian({91, kv_heads, head_dim}, seed);
  for (int64_t t = 0; t < 76; ++t) x[t].mul_(std::ldexp(1.0f, static_cast<int>(t - 38) * 3));
  x[76].zero_();
  x[77].fill_(-0.0f);
  x[78].fill_(5.25f);
  x[79].fill_(-1e-40f);
  x[80].mul_(1e-42f);
  x[81].fill_(1e38f);
  x[82].mul_(1e-9f);
  x[83].copy_(at::round(x[83] * 4) / 4);  // halves
  x[84].copy_(at::round(x[84] * 8) / 2);
  x[85].mul_(1e-30f)[0][0] = 1;  // one large number among small ones
  x[86].mul_(1e-3f).add_(3000);
  x[87].copy_(at::round(x[87] * 2));
  x[88].abs_();
  return x;
}

/// unpack(pack(x)) is round(x), and as many bytes as it says; then with an infinity or a NaN in it, which
/// must show.
inline void expect_packs(const Codec& codec, const at::Tensor& x, const std::string& what) {
  const CacheShape shape = shape_of(x);
  const at::Tensor rounded = round(codec, x);
  const std::vector<std::byte> packed = pack(codec, x);
  EXPECT_TRUE(same_numbers(codec.unpack(packed, shape, {}), rounded)) << what;
  EXPECT_EQ(static_cast<int64_t>(packed.size()) * 8, codec.stored_bits(shape, everything(shape))) << what;
  if (x.numel() == 0) return;
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    at::Tensor broken = x.clone();
    broken.view({-1})[x.numel() / 2] = bad;
    const at::Tensor out = round(codec, broken);
    EXPECT_FALSE(std::isfinite(out.view({-1})[x.numel() / 2].item<float>())) << what << " " << bad;
    EXPECT_TRUE(same_numbers(codec.unpack(pack(codec, broken), shape, {}), out)) << what << " " << bad;
  }
}

/// A small float's numbers from 0 up, by the definition: sign, `exponent_bits` and `mantissa_bits`, biased.
inline std::vector<double> sizes_of(int exponent_bits, int mantissa_bits, int finite_codes) {
  std::vector<double> sizes;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (int code = 0; code < finite_codes; ++code) {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const double fraction = double(mantissa) / (1 << mantissa_bits);
    sizes.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                  : std::ldexp(1 + fraction, exponent - bias));
  }
  return sizes;
}

/// By looking at every one: the nearest, of two the one with the even code; with x's sign. Saturates.
inline double nearest_of(const std::vector<double>& sizes, double x) {
  const double size = std::min(std::abs(x), sizes.back());
  size_t best = 0;
  for (size_t code = 1; code < sizes.size(); ++code) {
    const double gain = std::abs(size - sizes[best]) - std::abs(size - sizes[code]);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return std::copysign(sizes[best], x);
}

inline std::vector<double> e4m3_sizes() { return sizes_of(4, 3, 127); }
inline std::vector<double> e5m2_sizes() { return sizes_of(5, 2, 124); }
inline std::vector<double> e2m1_sizes() { return {0, 0.5, 1, 1.5, 2, 3, 4, 6}; }

}  // namespace kvcost::testing
