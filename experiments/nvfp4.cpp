// NVFP4 (NVIDIA Blackwell): blocks of 16 channels of a token, E2M1 elements, an E4M3 scale of largest / 6,
// and over it an fp32 scale that brings the block scales into E4M3's range. As the format is defined that
// second scale is the tensor's largest / (6 * 448), which looks ahead; a cache being filled can take one for
// each token, or none.
//   block scale = e4m3(largest in block / 6 / second),  s = block scale * second,  x' = e2m1(x / s) * s
// all saturating, halves to even. A block whose scale is 0 is 0. A head's last block is short if 16 does not
// divide its width. Packed: a token's block scales, then its elements, two to a byte.
#include <algorithm>

#include "src/cache/minifloat.h"
#include "src/cache/registry.h"
#include "src/cache/token_codec.h"

namespace kvcost {
namespace {

constexpr int64_t kBlock = 16;

int64_t blocks(int64_t d) { return (d + kBlock - 1) / kBlock; }

KVCOST_INLINE float block_scale(float largest, float second) {
  return nearest<E4m3>(largest / E2m1::largest / second);
}

KVCOST_INLINE float divisor(float scale) { return scale == 0 ? 1.0f : scale; }

// In three passes: a block's numbers then need not wait for its scale, and scales are taken several at once.
// `scale` and `above`: room for every block's.
KVCOST_MULTIARCH void round_all(const float* __restrict x, int64_t n, int64_t d,
                                const float* __restrict second, float* __restrict scale,
                                float* __restrict above, float* __restrict out) {
  const int64_t per_token = blocks(d);
  int64_t b = 0;
  for_each_block<kBlock>(
      n, d, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        scale[b++] = largest_of(x + i, count);
      });
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t c = 0; c < per_token; ++c) above[t * per_token + c] = second[t];
  }
  for (b = 0; b < n * per_token; ++b) scale[b] = block_scale(scale[b], above[b]) * above[b];
  b = 0;
  for_each_block<kBlock>(
      n, d, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        const float s = scale[b++], by = divisor(s);
#pragma omp simd
        for (int64_t j = i; j < i + count; ++j) out[j] = nearest<E2m1>(x[j] / by) * s;
      });
}

}  // namespace

class Nvfp4 : public TokenCodec {
 public:
  explicit Nvfp4(Knobs& knobs) : TokenCodec(knobs, read_scale(knobs, "second", "none")) {}

  static Description describe() {
    return {
        "4-bit floats, an 8-bit float for each 16 channels of a token",
        "NVIDIA 2025, arXiv 2509.25149",
        {{"second", "",
          "the fp32 scale over the block scales: \"none\", one for each \"token\" of a KV head, or one for "
          "the whole \"tensor\" (the format's own), which looks ahead (\"none\")"}},
        {"{}", R"({"second": "token"})", R"({"second": "tensor"})"}};
  }

 protected:
  float scale_of(float largest) const override {
    return (largest < 1e-8f ? 1e-8f : largest) / (E2m1::largest * E4m3::largest);
  }
  int64_t code_bytes(int64_t d) const override { return blocks(d) + (d + 1) / 2; }

  void round_tokens(const float* x, int64_t n, int64_t d, const float* second, float* out) const override {
    std::vector<float> scale(static_cast<size_t>(n * blocks(d))), above(scale.size());
    round_all(x, n, d, second, scale.data(), above.data(), out);
  }
  void pack_token(const float* x, int64_t d, float second, std::byte* out) const override {
    for (int64_t b = 0; b < blocks(d); ++b) {
      const int64_t begin = b * kBlock, end = std::min(begin + kBlock, d);
      const float scale = block_scale(largest_of(x + begin, end - begin), second);
      out[b] = std::byte(encode<E4m3>(scale));
      for (int64_t c = begin; c < end; ++c) {
        put_nibble(out + blocks(d), c, encode<E2m1>(nearest<E2m1>(x[c] / divisor(scale * second))));
      }
    }
  }
  void unpack_token(const std::byte* in, int64_t d, float second, float* out) const override {
    for (int64_t c = 0; c < d; ++c) {
      const float scale = decode<E4m3>(std::to_integer<uint8_t>(in[c / kBlock])) * second;
      out[c] = decode<E2m1>(get_nibble(in + blocks(d), c)) * scale;
    }
  }
};

KVCOST_CODEC("nvfp4", Nvfp4);

}  // namespace kvcost
