#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvcost {

/// How scales and offsets are themselves stored.
enum class Storage { fp32, fp16, bf16 };
int64_t storage_bits(Storage storage);
/// x rounded to `storage` (half to even) and back.
float stored_as(float x, Storage storage);

/// Rounding to 2^bits evenly spaced levels, one step (and zero) for a group of numbers:
///   offset     code = round((x - zero) / step) in [0, 2^bits - 1],        x' = code * step + zero
///   symmetric  the same with zero = 0, code in [-2^(bits-1), 2^(bits-1) - 1]
///   integer    code = clamp(round(x / step) + zero),                      x' = (code - zero) * step
/// All in fp32, one operation at a time, rounding half to even; -0 never comes out of a code. A NaN or an
/// infinity in a group gives a NaN or an infinity in what comes out of it.
struct Uniform {
  enum class Form { offset, symmetric, integer };

  int bits = 8;
  Form form = Form::offset;
  float clip = 1;  ///< in (0, 1]: shrinks the range before the step is taken
  Storage scales = Storage::fp32;

  float least() const;  ///< smallest code
  float most() const;   ///< largest code
  /// Bits one group takes beside its codes. An integer zero takes 32: it is no smaller than the group's
  /// distance from 0 in steps, which no number of bits bounds, so it is held as an fp32 integer.
  int64_t metadata_bits() const;

  /// Smallest and largest of each of n groups (overwritten) -> their step and zero as stored. A step stored
  /// as 0 (fp16) stands for a constant group: its zero is then the value of all its numbers.
  void grid(float* lo_to_step, float* hi_to_zero, int64_t n) const;
  /// Rounds n numbers of one group.
  void round(const float* x, int64_t n, float step, float zero, float* out) const;
  /// Rounds rows [rows, n] (each `stride` numbers after the one before) whose columns are groups of their
  /// own.
  void round_columns(const float* x, int64_t rows, int64_t n, int64_t stride, const float* step,
                     const float* zero, float* out) const;
  /// One number to code - least(), and back: the same arithmetic as round(). A NaN has code 0.
  uint32_t encode(float x, float step, float zero) const;
  float decode(uint32_t code, float step, float zero) const;

  /// Appends n steps, then n zeros, as stored; reads them back. Bytes: n * metadata_bits() / 8.
  void write_grid(const float* step, const float* zero, int64_t n, std::vector<std::byte>& out) const;
  void read_grid(std::span<const std::byte> bytes, float* step, float* zero, int64_t n) const;
};

/// Smallest and largest of n numbers, merged into lo and hi. NaNs are passed over.
void range(const float* x, int64_t n, float& lo, float& hi);
/// The same for each column of rows [rows, n], `stride` apart.
void range_columns(const float* x, int64_t rows, int64_t n, int64_t stride, float* lo, float* hi);

/// Codes of `bits` bits (1-8), one after the other, lowest bit first, across byte boundaries.
class BitWriter {
 public:
  BitWriter(std::vector<std::byte>& out, int bits) : out_(out), bits_(bits) {}
  void put(uint32_t code) {
    pending_ |= uint64_t(code) << count_;
    for (count_ += bits_; count_ >= 8; count_ -= 8, pending_ >>= 8) out_.push_back(std::byte(pending_ & 255));
  }
  void finish() {
    if (count_ > 0) out_.push_back(std::byte(pending_ & 255));
    pending_ = 0, count_ = 0;
  }

 private:
  std::vector<std::byte>& out_;
  int bits_, count_ = 0;
  uint64_t pending_ = 0;
};

/// Reads what BitWriter wrote; `bytes` must hold as many codes as are read.
class BitReader {
 public:
  BitReader(std::span<const std::byte> bytes, int bits) : next_(bytes.data()), bits_(bits) {}
  uint32_t get() {
    for (; count_ < bits_; count_ += 8) pending_ |= uint32_t(*next_++) << count_;
    uint32_t code = pending_ & ((1u << bits_) - 1);
    pending_ >>= bits_, count_ -= bits_;
    return code;
  }

 private:
  const std::byte* next_;
  int bits_, count_ = 0;
  uint32_t pending_ = 0;
};

}  // namespace kvcost
