#include "src/cache/token_codec.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "src/base/error.h"
#include "src/cache/minifloat.h"

namespace kvcost {
namespace {

constexpr int64_t kNumbersPerTask = 32768;  // one thread's bite: large beside the cost of handing it out
constexpr int64_t kNumbersInCache = 4096;   // scaled, then rounded while still in the first-level cache
constexpr int64_t kScaleBytes = sizeof(float);

int64_t pieces(int64_t whole, int64_t size) { return (whole + size - 1) / size; }

/// The largest |x| of each of n rows.
KVCOST_MULTIARCH void largest_each(const float* x, int64_t n, int64_t row, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = largest_of(x + i * row, row);
}

float largest_in(const float* x, int64_t n) {
  std::vector<float> parts(static_cast<size_t>(pieces(n, kNumbersPerTask)));
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = i * kNumbersPerTask;
      largest_each(x + from, 1, std::min(kNumbersPerTask, n - from), &parts[i]);
    }
  });
  return largest_of(parts.data(), static_cast<int64_t>(parts.size()));
}

void write(float scale, std::byte* out) { std::memcpy(out, &scale, kScaleBytes); }

float read(const std::byte* in) {
  float scale;
  std::memcpy(&scale, in, kScaleBytes);
  return scale;
}

CacheShape shape_of(const CodecInput& input) {
  CacheShape shape = input.shape;
  shape.tokens = input.x.size(0), shape.kv_heads = input.x.size(1), shape.head_dim = input.x.size(2);
  return shape;
}

}  // namespace

TokenCodec::Scale TokenCodec::read_scale(Knobs& knobs, const std::string& name, const std::string& fallback) {
  const std::string scale = knobs.choice(name, {"none", "tensor", "token"}, fallback);
  return scale == "none" ? Scale::none : scale == "tensor" ? Scale::tensor : Scale::token;
}

float TokenCodec::scale_of(float) const { return 1; }

int64_t TokenCodec::token_bytes(int64_t head_dim) const {
  return code_bytes(head_dim) + (scale_ == Scale::token ? kScaleBytes : 0);
}

float TokenCodec::tensor_scale(const at::Tensor& x) const {
  return scale_ == Scale::tensor ? scale_of(largest_in(x.const_data_ptr<float>(), x.numel())) : 1;
}

at::Tensor TokenCodec::round(const CodecInput& input) const {
  const CacheShape shape = shape_of(input);
  check(shape);
  const at::Tensor x = input.x.contiguous();
  at::Tensor out = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = out.data_ptr<float>();
  const int64_t d = shape.head_dim, batch = std::max<int64_t>(1, kNumbersInCache / d);
  const float shared = tensor_scale(x);
  at::parallel_for(0, shape.tokens * shape.kv_heads, std::max<int64_t>(1, kNumbersPerTask / d),
                   [&](int64_t begin, int64_t end) {
                     std::vector<float> scale(static_cast<size_t>(batch), shared);
                     for (int64_t i = begin; i < end; i += batch) {
                       const int64_t n = std::min(batch, end - i);
                       if (scale_ == Scale::token) {
                         largest_each(from + i * d, n, d, scale.data());
                         for (int64_t t = 0; t < n; ++t) scale[t] = scale_of(scale[t]);
                       }
                       round_tokens(from + i * d, n, d, scale.data(), to + i * d);
                     }
                   });
  return out;
}

std::vector<std::byte> TokenCodec::pack(const CodecInput& input) const {
  const CacheShape shape = shape_of(input);
  check(shape);
  const at::Tensor x = input.x.contiguous();
  const float* from = x.const_data_ptr<float>();
  const int64_t d = shape.head_dim, rows = shape.tokens * shape.kv_heads, bytes = token_bytes(d);
  const int64_t head = scale_ == Scale::tensor && rows > 0 ? kScaleBytes : 0;
  std::vector<std::byte> packed(static_cast<size_t>(head + rows * bytes));
  float scale = tensor_scale(x);
  if (head > 0) write(scale, packed.data());
  std::byte* to = packed.data() + head;
  for (int64_t i = 0; i < rows; ++i, from += d, to += bytes) {
    if (scale_ == Scale::token) write(scale = scale_of(largest_of(from, d)), to);
    pack_token(from, d, scale, to + bytes - code_bytes(d));
  }
  return packed;
}

at::Tensor TokenCodec::unpack(std::span<const std::byte> packed, const CacheShape& shape,
                              const at::Tensor&) const {
  check(shape);
  const int64_t d = shape.head_dim, rows = shape.tokens * shape.kv_heads, bytes = token_bytes(d);
  const int64_t head = scale_ == Scale::tensor && rows > 0 ? kScaleBytes : 0;
  if (packed.size() != static_cast<size_t>(head + rows * bytes)) {
    throw InputError(
        fmt::format("{}: packed in {} bytes, expected {}", path_, packed.size(), head + rows * bytes));
  }
  at::Tensor out = at::empty({shape.tokens, shape.kv_heads, d}, at::kFloat);
  float* to = out.data_ptr<float>();
  float scale = head > 0 ? read(packed.data()) : 1;
  const std::byte* from = packed.data() + head;
  for (int64_t i = 0; i < rows; ++i, from += bytes, to += d) {
    if (scale_ == Scale::token) scale = read(from);
    unpack_token(from + bytes - code_bytes(d), d, scale, to);
  }
  return out;
}

int64_t TokenCodec::stored_bits(const CacheShape& shape, const Holding& holding) const {
  int64_t held = 0;
  for (size_t i = 0; i < holding.kept.size(); ++i) held += holding.kept[i] != 0 && holding.rounded[i] != 0;
  const int64_t head = scale_ == Scale::tensor && held > 0 ? kScaleBytes : 0;
  return 8 * (head + held * token_bytes(shape.head_dim));
}

}  // namespace kvcost
