// Every value is computed as gguf-py does, one fp32 rounding an operation (the build forbids fused
// multiply-add), so that weights do not depend on the processor.
#include <bit>
#include <cstring>

#include "src/base/error.h"
#include "src/model/formats/bytes.h"
#include "src/model/formats/tensor_type.h"

// ifunc resolvers run before a sanitizer has set itself up.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define KVCOST_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define KVCOST_CLONES
#endif
#define KVCOST_INLINE inline __attribute__((always_inline))

namespace kvcost {
namespace {

KVCOST_INLINE float half(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  uint32_t rest = static_cast<uint32_t>(h & 0x7fff) << 13;
  uint32_t normal = rest + (112U << 23);
  uint32_t special = rest | (255U << 23);
  uint32_t tiny =
      std::bit_cast<uint32_t>(std::bit_cast<float>(rest + (113U << 23)) - std::bit_cast<float>(113U << 23));
  uint32_t bits = rest >= (31U << 23) ? special : normal;
  bits = rest < (1U << 23) ? tiny : bits;
  return std::bit_cast<float>(bits | sign);
}

KVCOST_INLINE float half_at(const std::byte* at) { return half(load<uint16_t>(at)); }

KVCOST_CLONES void decode_f16(const std::byte* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = half_at(in + 2 * i);
}

KVCOST_CLONES void decode_bf16(const std::byte* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(in + 2 * i)) << 16);
  }
}

KVCOST_CLONES void decode_q4_0(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 18, out += 32) {
    float d = half_at(in);
    const auto* q = reinterpret_cast<const uint8_t*>(in + 2);
    for (int j = 0; j < 16; ++j) out[j] = d * static_cast<float>((q[j] & 15) - 8);
    for (int j = 0; j < 16; ++j) out[j + 16] = d * static_cast<float>((q[j] >> 4) - 8);
  }
}

KVCOST_CLONES void decode_q4_1(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 20, out += 32) {
    float d = half_at(in), m = half_at(in + 2);
    const auto* q = reinterpret_cast<const uint8_t*>(in + 4);
    for (int j = 0; j < 16; ++j) out[j] = d * static_cast<float>(q[j] & 15) + m;
    for (int j = 0; j < 16; ++j) out[j + 16] = d * static_cast<float>(q[j] >> 4) + m;
  }
}

/// The 32 five-bit codes of a Q5_0 or Q5_1 block.
KVCOST_INLINE void five_bits(const std::byte* high, const std::byte* low, int32_t* __restrict code) {
  auto fifth = load<uint32_t>(high);
  const auto* q = reinterpret_cast<const uint8_t*>(low);
  for (int j = 0; j < 16; ++j) {
    code[j] = static_cast<int32_t>((q[j] & 15U) | (((fifth >> j) & 1U) << 4));
    code[j + 16] = static_cast<int32_t>((q[j] >> 4) | (((fifth >> (j + 16)) & 1U) << 4));
  }
}

KVCOST_CLONES void decode_q5_0(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 22, out += 32) {
    float d = half_at(in);
    int32_t code[32];
    five_bits(in + 2, in + 6, code);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(code[j] - 16);
  }
}

KVCOST_CLONES void decode_q5_1(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 24, out += 32) {
    float d = half_at(in), m = half_at(in + 2);
    int32_t code[32];
    five_bits(in + 4, in + 8, code);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(code[j]) + m;
  }
}

KVCOST_CLONES void decode_q8_0(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 34, out += 32) {
    float d = half_at(in);
    const auto* q = reinterpret_cast<const int8_t*>(in + 2);
    for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(q[j]) * d;
  }
}

struct ScaleAndMin {
  float scale[8], min[8];
};

/// Of the 8 sub-blocks of 32, from six-bit codes in 12 bytes.
KVCOST_INLINE ScaleAndMin scales_and_mins(const std::byte* in) {
  float d = half_at(in), dmin = half_at(in + 2);
  const auto* s = reinterpret_cast<const uint8_t*>(in + 4);
  ScaleAndMin result;
  for (int j = 0; j < 4; ++j) {
    result.scale[j] = d * static_cast<float>(s[j] & 63);
    result.min[j] = dmin * static_cast<float>(s[j + 4] & 63);
    result.scale[j + 4] = d * static_cast<float>((s[j + 8] & 15) | ((s[j] >> 6) << 4));
    result.min[j + 4] = dmin * static_cast<float>((s[j + 8] >> 4) | ((s[j + 4] >> 6) << 4));
  }
  return result;
}

KVCOST_CLONES void decode_q4_k(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 144) {
    ScaleAndMin s = scales_and_mins(in);
    const auto* q = reinterpret_cast<const uint8_t*>(in + 16);
    for (int g = 0; g < 4; ++g, q += 32, out += 64) {
      float d0 = s.scale[2 * g], m0 = s.min[2 * g], d1 = s.scale[2 * g + 1], m1 = s.min[2 * g + 1];
      for (int j = 0; j < 32; ++j) out[j] = d0 * static_cast<float>(q[j] & 15) - m0;
      for (int j = 0; j < 32; ++j) out[j + 32] = d1 * static_cast<float>(q[j] >> 4) - m1;
    }
  }
}

KVCOST_CLONES void decode_q5_k(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 176) {
    ScaleAndMin s = scales_and_mins(in);
    const auto* h = reinterpret_cast<const uint8_t*>(in + 16);
    const auto* q = reinterpret_cast<const uint8_t*>(in + 48);
    for (int g = 0; g < 4; ++g, q += 32, out += 64) {
      float d0 = s.scale[2 * g], m0 = s.min[2 * g], d1 = s.scale[2 * g + 1], m1 = s.min[2 * g + 1];
      for (int j = 0; j < 32; ++j) {
        out[j] = d0 * static_cast<float>((q[j] & 15) | (((h[j] >> (2 * g)) & 1) << 4)) - m0;
      }
      for (int j = 0; j < 32; ++j) {
        out[j + 32] = d1 * static_cast<float>((q[j] >> 4) | (((h[j] >> (2 * g + 1)) & 1) << 4)) - m1;
      }
    }
  }
}

KVCOST_CLONES void decode_q6_k(const std::byte* in, int64_t blocks, float* __restrict out) {
  for (int64_t b = 0; b < blocks; ++b, in += 210) {
    const auto* low = reinterpret_cast<const uint8_t*>(in);
    const auto* high = reinterpret_cast<const uint8_t*>(in + 128);
    const auto* s = reinterpret_cast<const int8_t*>(in + 192);
    float d = half_at(in + 208);
    for (int part = 0; part < 2; ++part, low += 64, high += 32, s += 8, out += 128) {
      for (int g = 0; g < 4; ++g) {  // 32 numbers each: low nibbles of both halves, then the high ones
        const uint8_t* nibbles = low + 32 * (g & 1);
        int shift = 4 * (g >> 1);
        float d0 = d * static_cast<float>(s[2 * g]), d1 = d * static_cast<float>(s[2 * g + 1]);
        float* to = out + 32 * g;
        for (int j = 0; j < 16; ++j) {
          int code = ((nibbles[j] >> shift) & 15) | (((high[j] >> (2 * g)) & 3) << 4);
          to[j] = d0 * static_cast<float>(code - 32);
        }
        for (int j = 16; j < 32; ++j) {
          int code = ((nibbles[j] >> shift) & 15) | (((high[j] >> (2 * g)) & 3) << 4);
          to[j] = d1 * static_cast<float>(code - 32);
        }
      }
    }
  }
}

}  // namespace

void dequantize(TensorType type, const std::byte* in, int64_t numbers, float* out) {
  int64_t blocks = numbers / info(type).block_numbers;
  if (blocks * info(type).block_numbers != numbers) throw Failure("dequantize: not a whole number of blocks");
  if (numbers == 0) return;
  switch (type) {
    case TensorType::F32:
      std::memcpy(out, in, static_cast<size_t>(numbers) * sizeof(float));
      return;
    case TensorType::F16:
      return decode_f16(in, numbers, out);
    case TensorType::BF16:
      return decode_bf16(in, numbers, out);
    case TensorType::Q4_0:
      return decode_q4_0(in, blocks, out);
    case TensorType::Q4_1:
      return decode_q4_1(in, blocks, out);
    case TensorType::Q5_0:
      return decode_q5_0(in, blocks, out);
    case TensorType::Q5_1:
      return decode_q5_1(in, blocks, out);
    case TensorType::Q8_0:
      return decode_q8_0(in, blocks, out);
    case TensorType::Q4_K:
      return decode_q4_k(in, blocks, out);
    case TensorType::Q5_K:
      return decode_q5_k(in, blocks, out);
    case TensorType::Q6_K:
      return decode_q6_k(in, blocks, out);
  }
}

}  // namespace kvcost
