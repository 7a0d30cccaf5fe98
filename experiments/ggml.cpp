// llama.cpp's cache types (--cache-type-k, --cache-type-v) as its reference quantizers round, blocks of 32
// channels of a token (ggml/src/ggml-quants.c, quantize_row_*_ref), every operation rounded to fp32 by
// itself:
//   q8_0        d = largest |x| / 127
//               code = x / d, halves away from zero          x' = d * code
//   q4_0, q5_0  d = the number with the largest |x| / -L
//               code = x / d + L + 1/2, cut off              x' = d * (code - L)
//   q4_1, q5_1  d = (max - min) / (2L - 1), m = min
//               code = (x - m) / d + 1/2, cut off            x' = d * code + m
// with L = 8 or 16; "/ d" is times 1 / d, d still exact; then d and m are stored as fp16. Where C leaves a
// code undefined (1 / d overflows) it is clamped; d is then stored as 0. A block that holds an infinity or a
// NaN becomes NaN. Packed: ggml's own blocks. (Some of llama.cpp's kernels round q8_0's halves to even.)
#include <c10/util/Half.h>

#include <algorithm>
#include <cfloat>
#include <cstring>

#include "src/base/error.h"
#include "src/cache/minifloat.h"
#include "src/cache/registry.h"
#include "src/cache/token_codec.h"

namespace kvcost {
namespace {

constexpr int64_t kBlock = 32;

struct Type {
  int bits;
  bool offset;  ///< m is stored too
  int64_t bytes() const { return 2 + (offset ? 2 : 0) + kBlock * bits / 8; }
};

/// A block's d and m, as read back from fp16.
struct Grid {
  float d = 0, m = 0;
};

KVCOST_INLINE float as_fp16(float x) { return static_cast<float>(c10::Half(x)); }
KVCOST_INLINE float inverse(float d) { return d != 0 ? 1.0f / d : 0.0f; }

/// Towards zero, clamped to [0, most]; 0 for a NaN.
KVCOST_INLINE float cut(float x, float most) {
  x = x > 0 ? x : 0.0f;
  x = x < most ? x : most;
  return static_cast<float>(static_cast<int32_t>(x));
}

/// Halves away from zero, clamped to -127..127; 0 for a NaN.
KVCOST_INLINE float away(float x) {
  const float size = std::fabs(x);
  return std::copysign(cut(size + (size < 0.5f ? 0.0f : 0.5f), 127), x) + 0.0f;
}

/// The first number of the largest |x|, +0 if all are 0.
KVCOST_INLINE float largest_signed(const float* x, float largest) {
  float lo = 0, hi = 0;
#pragma omp simd reduction(min : lo) reduction(max : hi)
  for (int i = 0; i < kBlock; ++i) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  if (hi != -lo) return hi > -lo ? hi : lo;
  for (int i = 0; i < kBlock && hi != 0; ++i) {
    if (std::fabs(x[i]) == largest) return x[i];
  }
  return 0;
}

/// The smallest number, the first of them: which zero it is shows in m.
KVCOST_INLINE float smallest(const float* x) {
  float lo = x[0];
#pragma omp simd reduction(min : lo)
  for (int i = 0; i < kBlock; ++i) lo = x[i] < lo ? x[i] : lo;
  for (int i = 0; i < kBlock && lo == 0; ++i) {
    if (x[i] == 0) return x[i];
  }
  return lo;
}

/// A block's d and m before they are stored.
template <int bits, bool offset>
KVCOST_INLINE Grid exact_grid(const float* x) {
  const float largest = largest_of(x, kBlock);
  if (!(largest <= FLT_MAX)) return {NAN, 0};
  if (bits == 8) return {largest / 127, 0};
  if (!offset) return {largest_signed(x, largest) / -static_cast<float>(1 << (bits - 1)), 0};
  const float lo = smallest(x);
  float hi = lo;
#pragma omp simd reduction(max : hi)
  for (int i = 0; i < kBlock; ++i) hi = x[i] > hi ? x[i] : hi;
  return {(hi - lo) / ((1 << bits) - 1), lo};
}

/// By the exact m and 1 / d.
template <int bits, bool offset>
KVCOST_INLINE float code_of(float x, float m, float by) {
  constexpr float kHalf = 1 << (bits - 1), kMost = (1 << bits) - 1;
  if (bits == 8) return away(x * by);
  return offset ? cut((x - m) * by + 0.5f, kMost) : cut(x * by + (kHalf + 0.5f), kMost);
}

/// By the stored d and m.
template <int bits, bool offset>
KVCOST_INLINE float value_of(float code, Grid grid) {
  constexpr float kMiddle = bits == 8 || offset ? 0 : 1 << (bits - 1);
  const float product = grid.d * (code - kMiddle);
  return offset ? product + grid.m : product;
}

template <int bits, bool offset>
Grid quantize(const float* x, float* code) {
  const Grid exact = exact_grid<bits, offset>(x);
  const float by = inverse(exact.d);
  for (int i = 0; i < kBlock; ++i) code[i] = code_of<bits, offset>(x[i], exact.m, by);
  return {as_fp16(exact.d), as_fp16(exact.m)};
}

template <int bits, bool offset>
void dequantize(Grid grid, const float* code, float* out) {
  for (int i = 0; i < kBlock; ++i) out[i] = value_of<bits, offset>(code[i], grid);
}

// In two passes over a few blocks: their numbers then need not wait for a grid.
template <int bits, bool offset>
KVCOST_INLINE void round_blocks(const float* __restrict x, int64_t blocks, float* __restrict out) {
  constexpr int64_t kAtOnce = 64;
  Grid exact[kAtOnce];
  for (int64_t begin = 0; begin < blocks; begin += kAtOnce) {
    const int64_t n = blocks - begin < kAtOnce ? blocks - begin : kAtOnce;
    for (int64_t b = 0; b < n; ++b) exact[b] = exact_grid<bits, offset>(x + (begin + b) * kBlock);
    for (int64_t b = 0; b < n; ++b) {
      const Grid grid = {as_fp16(exact[b].d), as_fp16(exact[b].m)};
      const float m = exact[b].m, by = inverse(exact[b].d);
      const int64_t first = (begin + b) * kBlock;
#pragma omp simd
      for (int64_t i = first; i < first + kBlock; ++i) {
        out[i] = value_of<bits, offset>(code_of<bits, offset>(x[i], m, by), grid);
      }
    }
  }
}

KVCOST_MULTIARCH void round_q8_0(const float* x, int64_t n, float* out) { round_blocks<8, false>(x, n, out); }
KVCOST_MULTIARCH void round_q5_1(const float* x, int64_t n, float* out) { round_blocks<5, true>(x, n, out); }
KVCOST_MULTIARCH void round_q5_0(const float* x, int64_t n, float* out) { round_blocks<5, false>(x, n, out); }
KVCOST_MULTIARCH void round_q4_1(const float* x, int64_t n, float* out) { round_blocks<4, true>(x, n, out); }
KVCOST_MULTIARCH void round_q4_0(const float* x, int64_t n, float* out) { round_blocks<4, false>(x, n, out); }

void write_half(float x, std::byte* out) {
  const c10::Half half(x);
  std::memcpy(out, &half, sizeof half);
}

float read_half(const std::byte* in) {
  c10::Half half;
  std::memcpy(&half, in, sizeof half);
  return half;
}

/// d, m if there is one, fifth bits if there are, then bytes, or nibbles: number i in the low half of byte i,
/// number i + 16 in its high half.
void write_block(Type type, Grid grid, const float* code, std::byte* out) {
  write_half(grid.d, out), out += 2;
  if (type.offset) write_half(grid.m, out), out += 2;
  uint32_t fifth = 0;
  for (int i = 0; i < kBlock; ++i) fifth |= (static_cast<uint32_t>(static_cast<int>(code[i])) >> 4 & 1) << i;
  if (type.bits == 5) std::memcpy(out, &fifth, 4), out += 4;
  for (int i = 0; i < kBlock; ++i) {
    const int number = static_cast<int>(code[i]);
    if (type.bits == 8) {
      out[i] = static_cast<std::byte>(number);
    } else {
      out[i % 16] |= static_cast<std::byte>((number & 15) << (i < 16 ? 0 : 4));
    }
  }
}

Grid read_block(Type type, const std::byte* in, float* code) {
  Grid grid;
  grid.d = read_half(in), in += 2;
  if (type.offset) grid.m = read_half(in), in += 2;
  uint32_t fifth = 0;
  if (type.bits == 5) std::memcpy(&fifth, in, 4), in += 4;
  for (int i = 0; i < kBlock; ++i) {
    if (type.bits == 8) {
      code[i] = static_cast<int8_t>(in[i]);
    } else {
      const auto both = std::to_integer<uint32_t>(in[i % 16]);
      code[i] = static_cast<float>((i < 16 ? both & 15 : both >> 4) | (fifth >> i & 1) << 4);
    }
  }
  return grid;
}

struct Kernels {
  const char* name;
  Type type;
  void (*round)(const float* x, int64_t blocks, float* out);
  Grid (*quantize)(const float* x, float* code);
  void (*dequantize)(Grid grid, const float* code, float* out);
};

template <int bits, bool offset>
constexpr Kernels kernels(const char* name, void (*round)(const float*, int64_t, float*)) {
  return {name, {bits, offset}, round, quantize<bits, offset>, dequantize<bits, offset>};
}

const Kernels kTypes[] = {kernels<8, false>("q8_0", round_q8_0), kernels<5, true>("q5_1", round_q5_1),
                          kernels<5, false>("q5_0", round_q5_0), kernels<4, true>("q4_1", round_q4_1),
                          kernels<4, false>("q4_0", round_q4_0)};

const Kernels& read_type(Knobs& knobs) {
  std::vector<std::string> names;
  for (const Kernels& kernels : kTypes) names.emplace_back(kernels.name);
  const std::string name = knobs.choice("type", names);
  return *std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const Kernels& k) { return name == k.name; });
}

}  // namespace

class Ggml : public TokenCodec {
 public:
  explicit Ggml(Knobs& knobs) : TokenCodec(knobs, Scale::none), kernels_(read_type(knobs)) {}

  static Description describe() {
    return {"llama.cpp's cache types, bit for bit, blocks of 32 channels of a token",
            "ggml-quants.c of github.com/ggml-org/llama.cpp",
            {{"type", "", "\"q8_0\", \"q5_1\", \"q5_0\", \"q4_1\" or \"q4_0\""}},
            {R"({"type": "q8_0"})", R"({"type": "q5_1"})", R"({"type": "q5_0"})", R"({"type": "q4_1"})",
             R"({"type": "q4_0"})"}};
  }

  void check(const CacheShape& shape) const override {
    if (shape.head_dim % kBlock != 0) {
      throw InputError(
          fmt::format("{}.type: found {} with heads of {} channels, expected a multiple of {}, ggml's block",
                      path(), kernels_.name, shape.head_dim, kBlock));
    }
  }

 protected:
  int64_t code_bytes(int64_t d) const override { return d / kBlock * kernels_.type.bytes(); }

  void round_tokens(const float* x, int64_t n, int64_t d, const float*, float* out) const override {
    kernels_.round(x, n * d / kBlock, out);
  }
  void pack_token(const float* x, int64_t d, float, std::byte* out) const override {
    float code[kBlock];
    for (int64_t c = 0; c < d; c += kBlock, out += kernels_.type.bytes()) {
      const Grid grid = kernels_.quantize(x + c, code);
      write_block(kernels_.type, grid, code, out);
    }
  }
  void unpack_token(const std::byte* in, int64_t d, float, float* out) const override {
    float code[kBlock];
    for (int64_t c = 0; c < d; c += kBlock, in += kernels_.type.bytes()) {
      const Grid grid = read_block(kernels_.type, in, code);
      kernels_.dequantize(grid, code, out + c);
    }
  }

 private:
  const Kernels& kernels_;
};

KVCOST_CODEC("ggml", Ggml);

}  // namespace kvcost
