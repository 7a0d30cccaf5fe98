#pragma once
#include "src/cache/codec.h"

namespace kvcost {

/// A codec that rounds the head_dim numbers of one token of one KV head apart from all others, to a whole
/// number of bytes; an fp32 scale may be stored with them, or once for the tensor (which looks ahead).
/// Packed: the tensor's scale if there is one; then token by token, head by head, the scale if there is one
/// and the codes.
class TokenCodec : public Codec {
 public:
  enum class Scale { none, tensor, token };
  /// From a knob `name`: "none", "tensor" or "token".
  static Scale read_scale(Knobs& knobs, const std::string& name, const std::string& fallback);

  TokenCodec(const Knobs& knobs, Scale scale) : path_(knobs.path()), scale_(scale) {}
  at::Tensor round(const CodecInput& input) const override;
  std::vector<std::byte> pack(const CodecInput& input) const override;
  at::Tensor unpack(std::span<const std::byte> packed, const CacheShape& shape,
                    const at::Tensor& bias) const override;
  int64_t stored_bits(const CacheShape& shape, const Holding& holding) const override;
  bool looks_ahead() const override { return scale_ == Scale::tensor; }

 protected:
  /// The scale of numbers of which `largest` is the largest |x|; a NaN or an infinity must give one.
  virtual float scale_of(float largest) const;
  /// Bytes that a token's codes take, and what its blocks store beside them.
  virtual int64_t code_bytes(int64_t head_dim) const = 0;
  /// [n, head_dim] rounded to `out`, with n scales (1 where there is none). From several threads at once.
  virtual void round_tokens(const float* x, int64_t n, int64_t head_dim, const float* scale,
                            float* out) const = 0;
  /// [head_dim] to code_bytes(), zeros before, and back: the numbers that round_tokens() gives.
  virtual void pack_token(const float* x, int64_t head_dim, float scale, std::byte* out) const = 0;
  virtual void unpack_token(const std::byte* in, int64_t head_dim, float scale, float* out) const = 0;

  const std::string& path() const { return path_; }

 private:
  int64_t token_bytes(int64_t head_dim) const;
  float tensor_scale(const at::Tensor& x) const;

  std::string path_;
  Scale scale_;
};

}  // namespace kvcost
