// Uniform rounding between the smallest and the largest number of a group, in every form this project
// compares; src/cache/uniform.h has the arithmetic. Where groups lie, C = kv_heads * head_dim:
//   axis "token"    `group` channels of one token. Up to head_dim: cut inside each head, the last may be
//                   short. Above: cut along the token's C channels, running on into the next heads.
//   axis "channel"  one channel over `group` consecutive tokens, cut at positions 0, group, 2 * group...
//   axis "tensor"   all of a layer's keys, or values, in the window.
// With "clip" c the range [lo, hi] becomes middle -+ c * half, half = (hi - lo) / 2, middle = lo + half.
// Packed: the steps of all groups, then their zeros, then every code, token by token, in `bits` bits each.
// KIVI (Liu et al., ICML 2024, arXiv 2402.02750) is 2-bit keys per channel and values per token with the
// newest tokens exact.
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "src/base/error.h"
#include "src/cache/registry.h"
#include "src/cache/uniform.h"

namespace kvcost {
namespace {

enum class Axis { token, channel, tensor };

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kNumbersPerTask = 32768;  // one thread's bite: large beside the cost of handing it out
constexpr int64_t kNumbersInCache = 4096;   // ranged, then rounded while still in the first-level cache

int64_t pieces(int64_t whole, int64_t size) { return (whole + size - 1) / size; }

/// Steps and zeros of all groups.
struct Grid {
  std::vector<float> step, zero;
};

}  // namespace

class MinMax : public Codec {
 public:
  explicit MinMax(Knobs& knobs) : path_(knobs.path()) {
    read_form(knobs);
    const std::string axis = knobs.choice("axis", {"token", "channel", "tensor"});
    axis_ = axis == "token" ? Axis::token : axis == "channel" ? Axis::channel : Axis::tensor;
    if (axis_ != Axis::tensor) {
      group_ = knobs.integer("group", 1, INT32_MAX);
    } else if (knobs.has("group")) {
      knobs.refuse("group", "none with axis \"tensor\"");
    }
    if (axis_ != Axis::channel && knobs.has("groups")) {
      knobs.refuse("groups", "none unless axis is \"channel\"");
    }
    causal_ = axis_ == Axis::channel && knobs.choice("groups", {"whole", "causal"}, "whole") == "causal";
    bias_removed_ = knobs.boolean("bias_removed", false);
    const std::string rope = knobs.choice("rope", {"after", "before"}, bias_removed_ ? "before" : "after");
    before_rope_ = rope == "before";
    if (bias_removed_ && !before_rope_) knobs.refuse("rope", "\"before\" with \"bias_removed\"");
  }

  static Description describe() {
    return {
        "evenly spaced levels between a group's smallest and largest number",
        "KIVI's codec: Liu et al. 2024, arXiv 2402.02750",
        {{"bits", "bits", "of a code, 1 to 8"},
         {"axis", "", "a group is of one \"token\", one \"channel\" or the whole \"tensor\""},
         {"group", "numbers", "that share a scale: channels of a token, or tokens of a channel"},
         {"symmetric", "", "true: levels lie about 0, no offset (false)"},
         {"zero", "", "\"offset\": the smallest number is stored; \"integer\": a zero point (\"offset\")"},
         {"clip", "", "share of the range that the levels span, above 0 to 1 (1)"},
         {"scales", "", "scales and offsets are held as \"fp32\", \"fp16\" or \"bf16\" (\"fp32\")"},
         {"rope", "", "keys are rounded \"after\" or \"before\" RoPE (\"after\")"},
         {"bias_removed", "", "true: keys less their bias are rounded, before RoPE (false)"},
         {"groups", "",
          "of channels: \"whole\", or \"causal\": rounded once all their tokens are old enough (\"whole\")"}},
        examples()};
  }

  void check(const CacheShape& shape) const override {
    const int64_t channels = shape.kv_heads * shape.head_dim;
    if (axis_ == Axis::token && group_ > channels) {
      throw InputError(
          fmt::format("{}.group: found {}, expected at most {}, the channels of a token ({} KV heads of {})",
                      path_, group_, channels, shape.kv_heads, shape.head_dim));
    }
  }

  at::Tensor round(const CodecInput& input) const override {
    const CacheShape shape = shape_of(input);
    check(shape);
    at::Tensor x = without_bias(input);
    at::Tensor out = at::empty_like(x);
    const float* from = x.const_data_ptr<float>();
    float* to = out.data_ptr<float>();
    switch (axis_) {
      case Axis::token:
        round_tokens(shape, from, to);
        break;
      case Axis::channel:
        round_channels(shape, from, to);
        break;
      case Axis::tensor:
        round_tensor(shape, from, to);
        break;
    }
    if (bias_removed_ && input.bias.defined()) out.add_(input.bias);
    return out;
  }

  void lifetimes(const CacheShape& shape, int64_t exact_last, std::span<int32_t> rounded_at) const override {
    if (!causal_) return Codec::lifetimes(shape, exact_last, rounded_at);
    for (size_t j = 0; j < rounded_at.size(); ++j) {
      const int64_t group_end = (static_cast<int64_t>(j) / group_ + 1) * group_;
      rounded_at[j] = static_cast<int32_t>(std::min<int64_t>(kNever, group_end - 1 + exact_last));
    }
  }

  bool before_rope() const override { return before_rope_; }
  bool looks_ahead() const override {
    return axis_ == Axis::tensor || (axis_ == Axis::channel && !causal_ && group_ > 1);
  }

  std::vector<std::byte> pack(const CodecInput& input) const override {
    const CacheShape shape = shape_of(input);
    check(shape);
    at::Tensor x = without_bias(input);
    const float* from = x.const_data_ptr<float>();
    const Grid grid = grid_of(shape, from);
    std::vector<std::byte> out;
    out.reserve(packed_bytes(shape));
    uniform_.write_grid(grid.step.data(), grid.zero.data(), static_cast<int64_t>(grid.step.size()), out);
    BitWriter codes(out, uniform_.bits);
    for_each_number(shape, [&](int64_t i, int64_t g) {
      codes.put(uniform_.encode(from[i], grid.step[g], grid.zero[g]));
    });
    codes.finish();
    return out;
  }

  at::Tensor unpack(std::span<const std::byte> packed, const CacheShape& shape,
                    const at::Tensor& bias) const override {
    check(shape);
    if (packed.size() != packed_bytes(shape)) {
      throw InputError(
          fmt::format("{}: packed in {} bytes, expected {}", path_, packed.size(), packed_bytes(shape)));
    }
    const int64_t groups = group_count(shape);
    Grid grid{std::vector<float>(groups), std::vector<float>(groups)};
    uniform_.read_grid(packed, grid.step.data(), grid.zero.data(), groups);
    at::Tensor out = at::empty({shape.tokens, shape.kv_heads, shape.head_dim}, at::kFloat);
    float* to = out.data_ptr<float>();
    BitReader codes(packed.subspan(groups * uniform_.metadata_bits() / 8), uniform_.bits);
    for_each_number(shape, [&](int64_t i, int64_t g) {
      to[i] = uniform_.decode(codes.get(), grid.step[g], grid.zero[g]);
    });
    if (bias_removed_ && bias.defined()) out.add_(bias);
    return out;
  }

  int64_t stored_bits(const CacheShape& shape, const Holding& holding) const override {
    const int64_t T = shape.tokens, d = shape.head_dim;
    auto held = [&](int64_t h, int64_t t) {
      return holding.kept[h * T + t] != 0 && holding.rounded[h * T + t] != 0;
    };
    int64_t tokens = 0, groups = 0;  // of one KV head each: tokens of d codes, groups of one step
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      int64_t last_group = -1;
      for (int64_t t = 0; t < T; ++t) {
        if (!held(h, t)) continue;
        ++tokens;
        if (axis_ == Axis::token && group_ <= d) groups += pieces(d, group_);
        if (axis_ == Axis::channel && t / group_ != last_group) last_group = t / group_, groups += d;
      }
    }
    if (axis_ == Axis::tensor && tokens > 0) groups = 1;
    if (axis_ == Axis::token && group_ > d) {
      const int64_t channels = shape.kv_heads * d;
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t begin = 0; begin < channels; begin += group_) {
          const int64_t last_head = (std::min(begin + group_, channels) - 1) / d;
          bool any = false;
          for (int64_t h = begin / d; h <= last_head; ++h) any = any || held(h, t);
          groups += any;
        }
      }
    }
    return tokens * d * uniform_.bits + groups * uniform_.metadata_bits();
  }

 private:
  void read_form(Knobs& knobs) {
    const bool symmetric = knobs.boolean("symmetric", false);
    uniform_.bits = static_cast<int>(knobs.integer("bits", 1, 8));
    if (symmetric && uniform_.bits == 1) {
      knobs.refuse("bits", "an integer from 2 to 8 with \"symmetric\": 1 bit has no level above 0");
    }
    if (symmetric && knobs.has("zero")) knobs.refuse("zero", "none with \"symmetric\"");
    uniform_.form = symmetric ? Uniform::Form::symmetric
                    : knobs.choice("zero", {"offset", "integer"}, "offset") == "integer"
                        ? Uniform::Form::integer
                        : Uniform::Form::offset;
    uniform_.clip = static_cast<float>(knobs.number("clip", 0, 1, 1));
    if (!(uniform_.clip > 0)) knobs.refuse("clip", "a number above 0, at most 1");
    const std::string scales = knobs.choice("scales", {"fp32", "fp16", "bf16"}, "fp32");
    uniform_.scales = scales == "fp32" ? Storage::fp32 : scales == "fp16" ? Storage::fp16 : Storage::bf16;
  }

  static std::vector<std::string> examples() {
    return {R"({"bits": 8, "axis": "token", "group": 16})",
            R"({"bits": 4, "axis": "token", "group": 5})",
            R"({"bits": 3, "axis": "token", "group": 24, "symmetric": true})",
            R"({"bits": 1, "axis": "token", "group": 16})",
            R"({"bits": 4, "axis": "token", "group": 16, "zero": "integer"})",
            R"({"bits": 4, "axis": "token", "group": 16, "zero": "integer", "scales": "fp16", "clip": 0.9})",
            R"({"bits": 2, "axis": "token", "group": 16, "clip": 0.75, "scales": "bf16"})",
            R"({"bits": 2, "axis": "channel", "group": 7, "scales": "fp16"})",
            R"({"bits": 2, "axis": "channel", "group": 7, "groups": "causal"})",
            R"({"bits": 5, "axis": "channel", "group": 6, "groups": "causal", "rope": "before"})",
            R"({"bits": 4, "axis": "token", "group": 16, "rope": "before"})",
            R"({"bits": 4, "axis": "token", "group": 16, "bias_removed": true})",
            R"({"bits": 7, "axis": "channel", "group": 1, "symmetric": true, "clip": 0.5})",
            R"({"bits": 6, "axis": "tensor"})",
            R"({"bits": 6, "axis": "tensor", "symmetric": true, "scales": "bf16"})"};
  }

  static CacheShape shape_of(const CodecInput& input) {
    CacheShape shape = input.shape;
    shape.tokens = input.x.size(0), shape.kv_heads = input.x.size(1), shape.head_dim = input.x.size(2);
    return shape;
  }

  at::Tensor without_bias(const CodecInput& input) const {
    return bias_removed_ && input.bias.defined() ? input.x - input.bias : input.x.contiguous();
  }

  // Groups of a token, in order of channels.
  int64_t group_channels(const CacheShape& shape) const {
    return group_ > shape.head_dim ? shape.kv_heads * shape.head_dim : shape.head_dim;
  }
  int64_t groups_per_token(const CacheShape& shape) const {
    const int64_t span = group_channels(shape);
    return shape.kv_heads * shape.head_dim / span * pieces(span, group_);
  }

  int64_t group_count(const CacheShape& shape) const {
    if (shape.tokens == 0) return 0;
    if (axis_ == Axis::token) return shape.tokens * groups_per_token(shape);
    if (axis_ == Axis::channel) return pieces(shape.tokens, group_) * shape.kv_heads * shape.head_dim;
    return 1;
  }

  size_t packed_bytes(const CacheShape& shape) const {
    const int64_t numbers = shape.tokens * shape.kv_heads * shape.head_dim;
    return static_cast<size_t>(group_count(shape) * uniform_.metadata_bits() / 8 +
                               pieces(numbers * uniform_.bits, 8));
  }

  /// use(first channel, channels) for each group of a token.
  template <class Use>
  void for_each_token_group(const CacheShape& shape, Use&& use) const {
    const int64_t channels = shape.kv_heads * shape.head_dim, span = group_channels(shape);
    for (int64_t begin = 0; begin < channels; begin += span) {
      for (int64_t c = 0; c < span; c += group_) use(begin + c, std::min(group_, span - c));
    }
  }

  /// use(number, its group), token by token.
  template <class Use>
  void for_each_number(const CacheShape& shape, Use&& use) const {
    const int64_t channels = shape.kv_heads * shape.head_dim;
    int64_t group = 0;
    for (int64_t t = 0; t < shape.tokens; ++t) {
      if (axis_ == Axis::token) {
        for_each_token_group(shape, [&](int64_t begin, int64_t n) {
          for (int64_t c = begin; c < begin + n; ++c) use(t * channels + c, group);
          ++group;
        });
      } else {
        const int64_t first = axis_ == Axis::channel ? t / group_ * channels : 0;
        for (int64_t c = 0; c < channels; ++c) use(t * channels + c, axis_ == Axis::channel ? first + c : 0);
      }
    }
  }

  /// Ranges of the groups of tokens [begin, end), turned into steps and zeros.
  void grid_tokens(const CacheShape& shape, const float* x, int64_t begin, int64_t end, float* step,
                   float* zero) const {
    const int64_t channels = shape.kv_heads * shape.head_dim;
    int64_t g = 0;
    for (int64_t t = begin; t < end; ++t) {
      for_each_token_group(shape, [&](int64_t c, int64_t n) {
        step[g] = kInfinity, zero[g] = -kInfinity;
        range(x + t * channels + c, n, step[g], zero[g]);
        ++g;
      });
    }
    uniform_.grid(step, zero, g);
  }

  /// The same for all channels of tokens [begin, end), one channel group deep.
  void grid_channels(const CacheShape& shape, const float* x, int64_t begin, int64_t end, float* step,
                     float* zero) const {
    const int64_t channels = shape.kv_heads * shape.head_dim;
    std::fill_n(step, channels, kInfinity);
    std::fill_n(zero, channels, -kInfinity);
    range_columns(x + begin * channels, end - begin, channels, channels, step, zero);
    uniform_.grid(step, zero, channels);
  }

  void grid_tensor(const CacheShape& shape, const float* x, float* step, float* zero) const {
    const int64_t numbers = shape.tokens * shape.kv_heads * shape.head_dim;
    const int64_t tasks = pieces(numbers, kNumbersPerTask);
    std::vector<float> lo(tasks, kInfinity), hi(tasks, -kInfinity);
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        range(x + i * kNumbersPerTask, std::min(kNumbersPerTask, numbers - i * kNumbersPerTask), lo[i],
              hi[i]);
      }
    });
    *step = *std::min_element(lo.begin(), lo.end());
    *zero = *std::max_element(hi.begin(), hi.end());
    uniform_.grid(step, zero, 1);
  }

  Grid grid_of(const CacheShape& shape, const float* x) const {
    const int64_t groups = group_count(shape), channels = shape.kv_heads * shape.head_dim;
    Grid grid{std::vector<float>(groups), std::vector<float>(groups)};
    if (groups == 0) return grid;
    if (axis_ == Axis::token) grid_tokens(shape, x, 0, shape.tokens, grid.step.data(), grid.zero.data());
    if (axis_ == Axis::tensor) grid_tensor(shape, x, grid.step.data(), grid.zero.data());
    for (int64_t t = 0; axis_ == Axis::channel && t < shape.tokens; t += group_) {
      const int64_t first = t / group_ * channels;
      grid_channels(shape, x, t, std::min(t + group_, shape.tokens), &grid.step[first], &grid.zero[first]);
    }
    return grid;
  }

  void round_tokens(const CacheShape& shape, const float* x, float* out) const {
    const int64_t channels = shape.kv_heads * shape.head_dim, groups = groups_per_token(shape);
    const int64_t block = std::max<int64_t>(1, kNumbersInCache / channels);
    at::parallel_for(0, shape.tokens, std::max<int64_t>(1, kNumbersPerTask / channels),
                     [&](int64_t begin, int64_t end) {
                       std::vector<float> step(block * groups), zero(block * groups);
                       for (int64_t t = begin; t < end; t += block) {
                         const int64_t stop = std::min(t + block, end);
                         grid_tokens(shape, x, t, stop, step.data(), zero.data());
                         int64_t g = 0;
                         for (int64_t u = t; u < stop; ++u) {
                           for_each_token_group(shape, [&](int64_t c, int64_t n) {
                             const int64_t i = u * channels + c;
                             uniform_.round(x + i, n, step[g], zero[g], out + i);
                             ++g;
                           });
                         }
                       }
                     });
  }

  void round_channels(const CacheShape& shape, const float* x, float* out) const {
    const int64_t channels = shape.kv_heads * shape.head_dim;
    const int64_t groups = pieces(shape.tokens, group_);
    const int64_t grain =
        std::max<int64_t>(1, kNumbersPerTask / (channels * std::min(group_, shape.tokens + 1)));
    at::parallel_for(0, groups, grain, [&](int64_t begin, int64_t end) {
      std::vector<float> step(channels), zero(channels);
      for (int64_t g = begin; g < end; ++g) {
        const int64_t t = g * group_, stop = std::min(t + group_, shape.tokens);
        grid_channels(shape, x, t, stop, step.data(), zero.data());
        uniform_.round_columns(x + t * channels, stop - t, channels, channels, step.data(), zero.data(),
                               out + t * channels);
      }
    });
  }

  void round_tensor(const CacheShape& shape, const float* x, float* out) const {
    const int64_t numbers = shape.tokens * shape.kv_heads * shape.head_dim;
    if (numbers == 0) return;
    float step, zero;
    grid_tensor(shape, x, &step, &zero);
    at::parallel_for(0, numbers, kNumbersPerTask, [&](int64_t begin, int64_t end) {
      uniform_.round(x + begin, end - begin, step, zero, out + begin);
    });
  }

  std::string path_;
  Uniform uniform_;
  Axis axis_ = Axis::token;
  int64_t group_ = 1;
  bool causal_ = false, bias_removed_ = false, before_rope_ = false;
};

KVCOST_CODEC("minmax", MinMax);

}  // namespace kvcost
