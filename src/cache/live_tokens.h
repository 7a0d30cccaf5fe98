#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/cache/policy.h"
#include "src/model/attention.h"

namespace kvcost {

/// cos and sin of positions 0, 1, 2... in columns, [head_dim / 2, stride]: what keys and queries are turned
/// by where a token's position is its rank among those kept.
class RankAngles {
 public:
  /// Takes over from a chunk what is not yet known of the first `most` positions. A rank is never above a
  /// position, so a cache that is shown every chunk knows what it needs. Failure if a chunk was left out.
  void learn(const LayerInput& input, int64_t most);
  int64_t stride() const { return stride_; }
  const float* cos() const { return cos_.data(); }
  const float* sin() const { return sin_.data(); }

 private:
  int64_t known_ = 0, stride_ = 0;
  std::vector<float> cos_, sin_;
};

/// Keys or values of a chunk's tokens, as a cache takes them in.
struct LiveSide {
  const float* exact = nullptr;         ///< [tokens, kv_heads, head_dim]
  const float* rounded = nullptr;       ///< same; nullptr: nothing is rounded
  const int32_t* rounded_at = nullptr;  ///< [kv_heads, tokens]; nullptr: always
};

/// A chunk of a text. What is rounded comes as one chunk, for a token may be rounded long after it came.
struct LiveChunk {
  int64_t offset = 0, tokens = 0;
  LiveSide keys, values;                       ///< keys before RoPE if tokens are renumbered, else after
  const float *cos = nullptr, *sin = nullptr;  ///< [tokens, head_dim / 2]
};

/// The tokens that one set of KV heads keeps, as they stand at one step.
class LiveTokens {
 public:
  struct Setup {
    int64_t first_kv_head = 0, kv_heads = 1;
    int64_t room = 1;      ///< for how many tokens to begin with
    int64_t numbers = 0;   ///< that a policy remembers of a token; 0: none asks
    bool weighs = false;   ///< attend() will be called
    bool attends = false;  ///< output() will be called: values are kept
    /// Positions are ranks among the tokens kept; slots are then in order of age.
    const RankAngles* angles = nullptr;
  };
  LiveTokens(const CacheShape& shape, const Setup& setup);
  LiveTokens(LiveTokens&&) = default;  // a copy's view would show the original

  /// Token i enters; what becomes rounded at its step is rounded.
  void enter(int64_t i, const LiveChunk& chunk);
  /// Turns keys whose rank is not what it was. Before view().keys are read or attend() is called.
  void settle();
  /// Slots whose key has come or changed since the last call; nothing is noted without a policy's numbers.
  void take_changed(std::vector<int64_t>& slots);
  /// The newest token's query attends: q [query_heads, head_dim] after RoPE at its own position.
  void attend(const float* q, const LiveChunk& chunk);
  /// After attend(): what its queries get, into out [query_heads, head_dim].
  void output(float* out);
  /// Tokens in these slots, ascending, leave.
  void give_up(std::span<const int64_t> slots);

  const CacheView& view() const { return view_; }
  int64_t slots() const { return static_cast<int64_t>(positions_.size()); }
  std::span<const int32_t> positions() const { return positions_; }
  /// [numbers, stride]
  std::span<double> memory() { return memory_; }
  int64_t bytes() const;

 private:
  void grow(int64_t room);
  void show();
  void write_key(int64_t h, int64_t slot, const float* key);
  void write_value(int64_t h, int64_t slot, const float* value);
  template <class Number>
  void close_gaps(std::vector<Number>& rows, std::span<const int64_t> gone) const;
  template <class Number>
  void move_slot(std::vector<Number>& rows, int64_t from, int64_t to) const;

  int64_t query_heads_, all_kv_heads_, group_, head_dim_;
  Setup setup_;
  int64_t stride_ = 0, value_width_;
  int64_t settled_ = 0;  ///< slots from here on have keys that wait to be turned
  CacheView view_;
  std::vector<int32_t> positions_;  ///< [slots]
  std::vector<int32_t> place_;      ///< [stride] the row of each slot's values; behind the slots: free rows
  std::vector<float> unturned_;     ///< [kv_heads, head_dim, stride] keys before RoPE, or nothing
  std::vector<float> keys_;         ///< [kv_heads, head_dim, stride] as attention reads them
  std::vector<float> values_;       ///< [kv_heads, stride, value_width], or nothing
  std::vector<float> weights_;      ///< [heads, stride], or nothing
  std::vector<double> memory_;      ///< [numbers, stride]
  std::vector<float> query_;        ///< [group, head_dim] in units of log 2
  std::vector<float> output_;       ///< [group, value_width]
  std::vector<int64_t> changed_;
};

}  // namespace kvcost
