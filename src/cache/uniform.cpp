#include "src/cache/uniform.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstring>

#include "src/model/simd.h"

namespace kvcost {
namespace {

struct Bounds {
  float least, most;
};

// A comparison with a NaN is false, so a NaN stays one through both clamps. Clamped before it is rounded: the
// bounds are whole numbers, so the result is the same, and rintf never sees more than a code.
KVCOST_INLINE float code_of(float x, float step, float zero, Bounds bounds) {
  float divisor = step == 0.0f ? 1.0f : step;
  float code = (x - zero) / divisor;
  code = code < bounds.least ? bounds.least : code;
  code = code > bounds.most ? bounds.most : code;
  return __builtin_rintf(code) + 0.0f;
}

KVCOST_INLINE float value_of(float code, float step, float zero) { return code * step + zero; }

KVCOST_INLINE float integer_code_of(float x, float step, float zero, Bounds bounds) {
  float divisor = step == 0.0f ? 1.0f : step;
  float code = __builtin_rintf(x / divisor) + zero;
  code = code < bounds.least ? bounds.least : code;
  code = code > bounds.most ? bounds.most : code;
  return code + 0.0f;
}

KVCOST_INLINE float integer_value_of(float code, float step, float zero) {
  return step == 0.0f ? zero : (code - zero) * step;
}

KVCOST_MULTIARCH void round_one(const float* __restrict x, int64_t n, float step, float zero, Bounds bounds,
                                float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = value_of(code_of(x[i], step, zero, bounds), step, zero);
}

KVCOST_MULTIARCH void round_one_integer(const float* __restrict x, int64_t n, float step, float zero,
                                        Bounds bounds, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = integer_value_of(integer_code_of(x[i], step, zero, bounds), step, zero);
  }
}

KVCOST_MULTIARCH void round_each(const float* __restrict x, int64_t n, const float* __restrict step,
                                 const float* __restrict zero, Bounds bounds, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = value_of(code_of(x[i], step[i], zero[i], bounds), step[i], zero[i]);
}

KVCOST_MULTIARCH void round_each_integer(const float* __restrict x, int64_t n, const float* __restrict step,
                                         const float* __restrict zero, Bounds bounds, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = integer_value_of(integer_code_of(x[i], step[i], zero[i], bounds), step[i], zero[i]);
  }
}

KVCOST_MULTIARCH void range_each(const float* __restrict x, int64_t n, float* __restrict lo,
                                 float* __restrict hi) {
  for (int64_t i = 0; i < n; ++i) {
    lo[i] = x[i] < lo[i] ? x[i] : lo[i];
    hi[i] = x[i] > hi[i] ? x[i] : hi[i];
  }
}

// `floor` is 1e-8 / levels divided in double, as PyTorch code that clamps the step to it does.
KVCOST_MULTIARCH void steps_asymmetric(float* __restrict lo_to_step, float* __restrict hi_to_zero, int64_t n,
                                       float clip, float levels, float floor) {
  for (int64_t i = 0; i < n; ++i) {
    float lo = lo_to_step[i], hi = hi_to_zero[i];
    if (clip < 1.0f) {
      float half = (hi - lo) * 0.5f, middle = lo + half;
      lo = middle - clip * half;
      hi = middle + clip * half;
    }
    float step = (hi - lo) / levels;
    lo_to_step[i] = step < floor ? floor : step;
    hi_to_zero[i] = lo;
  }
}

KVCOST_MULTIARCH void steps_symmetric(float* __restrict lo_to_step, float* __restrict hi_to_zero, int64_t n,
                                      float clip, float levels) {
  for (int64_t i = 0; i < n; ++i) {
    float below = -lo_to_step[i], above = hi_to_zero[i];
    float largest = (above > below ? above : below) * clip;
    largest = largest < 1e-8f ? 1e-8f : largest;
    lo_to_step[i] = largest / levels;
    hi_to_zero[i] = 0.0f;
  }
}

template <class Small>
void append(const float* values, int64_t n, std::vector<std::byte>& out) {
  for (int64_t i = 0; i < n; ++i) {
    Small small = static_cast<Small>(values[i]);
    const auto* bytes = reinterpret_cast<const std::byte*>(&small);
    out.insert(out.end(), bytes, bytes + sizeof(Small));
  }
}

template <class Small>
void extract(const std::byte* bytes, float* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Small small;
    std::memcpy(&small, bytes + i * sizeof(Small), sizeof(Small));
    values[i] = static_cast<float>(small);
  }
}

void append(const float* values, int64_t n, Storage storage, std::vector<std::byte>& out) {
  if (storage == Storage::fp32) append<float>(values, n, out);
  if (storage == Storage::fp16) append<c10::Half>(values, n, out);
  if (storage == Storage::bf16) append<c10::BFloat16>(values, n, out);
}

void extract(const std::byte* bytes, Storage storage, float* values, int64_t n) {
  if (storage == Storage::fp32) extract<float>(bytes, values, n);
  if (storage == Storage::fp16) extract<c10::Half>(bytes, values, n);
  if (storage == Storage::bf16) extract<c10::BFloat16>(bytes, values, n);
}

}  // namespace

int64_t storage_bits(Storage storage) { return storage == Storage::fp32 ? 32 : 16; }

float stored_as(float x, Storage storage) {
  if (storage == Storage::fp16) return static_cast<float>(c10::Half(x));
  if (storage == Storage::bf16) return static_cast<float>(c10::BFloat16(x));
  return x;
}

float Uniform::least() const { return form == Form::offset ? 0.0f : -static_cast<float>(1 << (bits - 1)); }
float Uniform::most() const { return least() + static_cast<float>((1 << bits) - 1); }

int64_t Uniform::metadata_bits() const {
  int64_t step = storage_bits(scales);
  if (form == Form::symmetric) return step;
  return step + (form == Form::integer ? 32 : step);
}

void Uniform::grid(float* lo_to_step, float* hi_to_zero, int64_t n) const {
  if (form == Form::symmetric) {
    steps_symmetric(lo_to_step, hi_to_zero, n, clip, most());
  } else {
    const int levels = (1 << bits) - 1;
    steps_asymmetric(lo_to_step, hi_to_zero, n, clip, static_cast<float>(levels),
                     static_cast<float>(1e-8 / levels));
  }
  if (scales != Storage::fp32) {
    for (int64_t i = 0; i < n; ++i) lo_to_step[i] = stored_as(lo_to_step[i], scales);
  }
  if (form == Form::offset && scales != Storage::fp32) {
    for (int64_t i = 0; i < n; ++i) hi_to_zero[i] = stored_as(hi_to_zero[i], scales);
  }
  if (form == Form::integer) {
    for (int64_t i = 0; i < n; ++i) {
      float step = lo_to_step[i];
      const float lo = hi_to_zero[i];
      hi_to_zero[i] = step == 0.0f ? lo + 0.0f : __builtin_rintf(least() - lo / step);
    }
  }
}

void Uniform::round(const float* x, int64_t n, float step, float zero, float* out) const {
  if (form == Form::integer) {
    round_one_integer(x, n, step, zero, {least(), most()}, out);
  } else {
    round_one(x, n, step, zero, {least(), most()}, out);
  }
}

void Uniform::round_columns(const float* x, int64_t rows, int64_t n, int64_t stride, const float* step,
                            const float* zero, float* out) const {
  for (int64_t r = 0; r < rows; ++r, x += stride, out += stride) {
    if (form == Form::integer) {
      round_each_integer(x, n, step, zero, {least(), most()}, out);
    } else {
      round_each(x, n, step, zero, {least(), most()}, out);
    }
  }
}

uint32_t Uniform::encode(float x, float step, float zero) const {
  Bounds bounds{least(), most()};
  float code =
      form == Form::integer ? integer_code_of(x, step, zero, bounds) : code_of(x, step, zero, bounds);
  return code == code ? static_cast<uint32_t>(code - bounds.least) : 0;
}

float Uniform::decode(uint32_t code, float step, float zero) const {
  float number = static_cast<float>(code) + least();
  return form == Form::integer ? integer_value_of(number, step, zero) : value_of(number, step, zero);
}

void Uniform::write_grid(const float* step, const float* zero, int64_t n, std::vector<std::byte>& out) const {
  append(step, n, scales, out);
  if (form == Form::integer) append(zero, n, Storage::fp32, out);
  if (form == Form::offset) append(zero, n, scales, out);
}

void Uniform::read_grid(std::span<const std::byte> bytes, float* step, float* zero, int64_t n) const {
  extract(bytes.data(), scales, step, n);
  const std::byte* zeros = bytes.data() + n * storage_bits(scales) / 8;
  if (form == Form::integer) extract(zeros, Storage::fp32, zero, n);
  if (form == Form::offset) extract(zeros, scales, zero, n);
  if (form == Form::symmetric) std::memset(zero, 0, static_cast<size_t>(n) * sizeof(float));
}

KVCOST_MULTIARCH void range(const float* x, int64_t n, float& lo, float& hi) {
  float least = lo, most = hi;
#pragma omp simd reduction(min : least) reduction(max : most)
  for (int64_t i = 0; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  lo = least, hi = most;
}

void range_columns(const float* x, int64_t rows, int64_t n, int64_t stride, float* lo, float* hi) {
  for (int64_t r = 0; r < rows; ++r, x += stride) range_each(x, n, lo, hi);
}

}  // namespace kvcost
