// MXFP4 of the OCP Microscaling Formats Specification 1.0: blocks of 32 channels of a token, E2M1 elements,
// one E8M0 scale, the power of two 2^(floor(log2(largest |x|)) - 2). So the largest lands in [4, 8): above 6
// it saturates. A head's last block is short if 32 does not divide its width. A block that holds an infinity
// or a NaN becomes NaN, by the scale's own NaN. Packed: a token's scales, then its elements, two to a byte.
#include <algorithm>

#include "src/cache/minifloat.h"
#include "src/cache/registry.h"
#include "src/cache/token_codec.h"

namespace kvcost {
namespace {

constexpr int64_t kBlock = 32;
constexpr uint32_t kNaN = 255;  // E8M0; code c below stands for 2^(c - 127)

int64_t blocks(int64_t d) { return (d + kBlock - 1) / kBlock; }

/// Clamped to 2^-127, the smallest there is, for blocks of (almost) nothing.
KVCOST_INLINE uint32_t scale_code(float largest) {
  const uint32_t exponent = std::bit_cast<uint32_t>(largest) >> 23;
  return exponent == 255 ? kNaN : (exponent < 2 ? 2 : exponent) - 2;
}

KVCOST_INLINE float scale_value(uint32_t code) {
  const uint32_t subnormal = 0x00400000, nan = 0x7fc00000;
  return std::bit_cast<float>(code == 0 ? subnormal : code == kNaN ? nan : code << 23);
}

/// 1 / scale, exactly: no code of a finite block is above 252.
KVCOST_INLINE float inverse(uint32_t code) {
  return code == kNaN ? scale_value(kNaN) : scale_value(254 - code);
}

// In two passes: a block's numbers then need not wait for its scale. `code`: room for every block's.
KVCOST_MULTIARCH void round_all(const float* __restrict x, int64_t n, int64_t d, uint32_t* __restrict code,
                                float* __restrict out) {
  uint32_t* next = code;
  for_each_block<kBlock>(
      n, d, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        *next++ = scale_code(largest_of(x + i, count));
      });
  next = code;
  for_each_block<kBlock>(
      n, d, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        const float scale = scale_value(*next), by = inverse(*next);
        ++next;
#pragma omp simd
        for (int64_t j = i; j < i + count; ++j) out[j] = nearest<E2m1>(x[j] * by) * scale;
      });
}

}  // namespace

class Mxfp4 : public TokenCodec {
 public:
  explicit Mxfp4(Knobs& knobs) : TokenCodec(knobs, Scale::none) {}

  static Description describe() {
    return {"4-bit floats, a power of two for each 32 channels of a token",
            "OCP Microscaling Formats (MX) Specification 1.0; Rouhani et al. 2023, arXiv 2310.10537",
            {},
            {"{}"}};
  }

 protected:
  int64_t code_bytes(int64_t d) const override { return blocks(d) + (d + 1) / 2; }

  void round_tokens(const float* x, int64_t n, int64_t d, const float*, float* out) const override {
    std::vector<uint32_t> code(static_cast<size_t>(n * blocks(d)));
    round_all(x, n, d, code.data(), out);
  }
  void pack_token(const float* x, int64_t d, float, std::byte* out) const override {
    for (int64_t b = 0; b < blocks(d); ++b) {
      const int64_t begin = b * kBlock, end = std::min(begin + kBlock, d);
      const uint32_t code = scale_code(largest_of(x + begin, end - begin));
      out[b] = std::byte(code);
      for (int64_t c = begin; c < end; ++c) {
        put_nibble(out + blocks(d), c, encode<E2m1>(nearest<E2m1>(x[c] * inverse(code))));
      }
    }
  }
  void unpack_token(const std::byte* in, int64_t d, float, float* out) const override {
    for (int64_t c = 0; c < d; ++c) {
      const float scale = scale_value(std::to_integer<uint32_t>(in[c / kBlock]));
      out[c] = decode<E2m1>(get_nibble(in + blocks(d), c)) * scale;
    }
  }
};

KVCOST_CODEC("mxfp4", Mxfp4);

}  // namespace kvcost
