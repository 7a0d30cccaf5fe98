#pragma once
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/cache/knobs.h"
#include "src/cache/policy.h"

namespace kvcost {

/// Numbers that stay exact are counted as 16 bits, as serving caches hold them.
inline constexpr int64_t kExactBits = 16;

/// One layer's keys (or values) to be rounded.
struct CodecInput {
  at::Tensor x;  ///< [tokens, kv_heads, head_dim] fp32; keys in the codec's own frame (before or after RoPE)
  at::Tensor bias;  ///< [kv_heads, head_dim], the key bias in x; undefined where there is none
  CacheShape shape;
};

/// Which of a layer's tokens are in the cache at the moment bytes are counted, and which are stored rounded.
struct Holding {
  std::vector<uint8_t> kept, rounded;  ///< [kv_heads * tokens], head by head; 0 or 1
};

/// Rounds keys or values. Constructed from its knobs (`Class(Knobs&)`), registered by KVCOST_CODEC.
class Codec {
 public:
  virtual ~Codec() = default;
  /// InputError if the codec does not fit this model's shape (a group larger than a token has channels).
  virtual void check(const CacheShape&) const {}
  /// x' for every token, [tokens, kv_heads, head_dim] fp32, whenever it is that each one gets rounded.
  virtual at::Tensor round(const CodecInput& input) const = 0;
  /// rounded_at for one KV head's [tokens]: query i reads token j exact when i < rounded_at[j].
  /// `exact_last`: R, the newest tokens that stay exact. Default: j + R (0 if R is 0).
  virtual void lifetimes(const CacheShape& shape, int64_t exact_last, std::span<int32_t> rounded_at) const;
  /// True if the codec works on keys before RoPE; its x' is then rotated.
  virtual bool before_rope() const { return false; }
  /// True if a scale is set partly by tokens that come later: exempt from "one pass equals token by token".
  virtual bool looks_ahead() const { return false; }
  /// Every token of x, packed as a cache would store it. 8 * size = stored_bits() of everything rounded,
  /// up to the last byte.
  virtual std::vector<std::byte> pack(const CodecInput& input) const = 0;
  /// [tokens, kv_heads, head_dim]; equals round(input) bit for bit. `bias`: as in CodecInput (the model has
  /// it, so a cache does not store it). InputError if the bytes do not fit the shape.
  virtual at::Tensor unpack(std::span<const std::byte> packed, const CacheShape& shape,
                            const at::Tensor& bias) const = 0;
  /// Bits that `holding`'s rounded tokens take, codes and metadata (exact ones are counted by the caller).
  virtual int64_t stored_bits(const CacheShape& shape, const Holding& holding) const = 0;
};

}  // namespace kvcost
