// Eight-bit floats: x' = fp8(x / s) * s, halves to even, saturating. Formats by the OCP 8-bit Floating Point
// Specification 1.0 (Micikevicius et al. 2022, arXiv 2209.05433); s as serving caches have it: 1, or what
// maps the largest number onto the format's largest. Packed: one byte a number.
#include "src/cache/minifloat.h"
#include "src/cache/registry.h"
#include "src/cache/token_codec.h"

namespace kvcost {
namespace {

template <class Format>
KVCOST_INLINE void round_scaled(const float* __restrict x, int64_t n, int64_t d, const float* scale,
                                float* __restrict out) {
  for (int64_t t = 0; t < n; ++t, x += d, out += d) {
    const float s = scale[t];
    for (int64_t c = 0; c < d; ++c) out[c] = nearest<Format>(x[c] / s) * s;
  }
}

KVCOST_MULTIARCH void round_e4m3(const float* x, int64_t n, int64_t d, const float* scale, float* out) {
  round_scaled<E4m3>(x, n, d, scale, out);
}

KVCOST_MULTIARCH void round_e5m2(const float* x, int64_t n, int64_t d, const float* scale, float* out) {
  round_scaled<E5m2>(x, n, d, scale, out);
}

}  // namespace

class Fp8 : public TokenCodec {
 public:
  explicit Fp8(Knobs& knobs)
      : TokenCodec(knobs, read_scale(knobs, "scale", "none")),
        e4m3_(knobs.choice("format", {"e4m3fn", "e5m2"}) == "e4m3fn") {}

  static Description describe() {
    return {
        "8-bit floats, with or without a scale",
        "Micikevicius et al. 2022, arXiv 2209.05433",
        {{"format", "", "\"e4m3fn\" (up to 448) or \"e5m2\" (up to 57344)"},
         {"scale", "",
          "an fp32 scale: \"none\", one for each \"token\" of a KV head, or one for the whole \"tensor\", "
          "which looks ahead (\"none\")"}},
        {R"({"format": "e4m3fn"})", R"({"format": "e5m2"})", R"({"format": "e4m3fn", "scale": "token"})",
         R"({"format": "e5m2", "scale": "token"})", R"({"format": "e4m3fn", "scale": "tensor"})",
         R"({"format": "e5m2", "scale": "tensor"})"}};
  }

 protected:
  float scale_of(float largest) const override {
    return (largest < 1e-8f ? 1e-8f : largest) / (e4m3_ ? E4m3::largest : E5m2::largest);
  }
  int64_t code_bytes(int64_t head_dim) const override { return head_dim; }

  void round_tokens(const float* x, int64_t n, int64_t d, const float* scale, float* out) const override {
    (e4m3_ ? round_e4m3 : round_e5m2)(x, n, d, scale, out);
  }
  void pack_token(const float* x, int64_t d, float scale, std::byte* out) const override {
    for (int64_t c = 0; c < d; ++c) {
      const float y = x[c] / scale;
      out[c] = std::byte(e4m3_ ? encode<E4m3>(nearest<E4m3>(y)) : encode<E5m2>(nearest<E5m2>(y)));
    }
  }
  void unpack_token(const std::byte* in, int64_t d, float scale, float* out) const override {
    for (int64_t c = 0; c < d; ++c) {
      const auto code = std::to_integer<uint8_t>(in[c]);
      out[c] = (e4m3_ ? decode<E4m3>(code) : decode<E5m2>(code)) * scale;
    }
  }

 private:
  bool e4m3_;
};

KVCOST_CODEC("fp8", Fp8);

}  // namespace kvcost
