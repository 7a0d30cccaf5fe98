#include "src/cache/live_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/base/error.h"
#include "src/cache/live_kernels.h"
#include "src/model/elementwise.h"
#include "src/model/softmax.h"

namespace kvcost {
namespace {

/// Room for `slots` in whole blocks, an odd number of them: a power of two would put all channels of a slot
/// into the same few places of the processor's cache.
int64_t stride_of(int64_t slots) {
  const int64_t blocks = (slots + kScoreBlock - 1) / kScoreBlock;
  return (blocks | 1) * kScoreBlock;
}

/// Rows of `from` numbers -> rows of `to`, what is new being 0.
template <class Number>
void widen(std::vector<Number>& rows, int64_t from, int64_t to) {
  if (rows.empty()) return;
  std::vector<Number> wide(rows.size() / static_cast<size_t>(from) * static_cast<size_t>(to), Number{0});
  for (size_t r = 0; r * static_cast<size_t>(from) < rows.size(); ++r) {
    std::copy_n(rows.begin() + static_cast<int64_t>(r) * from, from,
                wide.begin() + static_cast<int64_t>(r) * to);
  }
  rows = std::move(wide);
}

template <class Number>
int64_t bytes_of(const std::vector<Number>& numbers) {
  return static_cast<int64_t>(numbers.capacity() * sizeof(Number));
}

}  // namespace

void RankAngles::learn(const LayerInput& input, int64_t most) {
  const int64_t half = input.cos.size(1);
  const int64_t last = std::min(most, input.offset + input.cos.size(0));
  if (known_ >= last) return;
  if (input.offset > known_) {
    throw Failure(fmt::format("cache: a chunk at position {}, expected the one at {}", input.offset, known_));
  }
  if (last > stride_) {
    const int64_t stride = stride_of(std::min(most, std::max(last, 2 * stride_)));
    if (stride_ == 0) {
      cos_.assign(static_cast<size_t>(half * stride), 0.0f), sin_ = cos_;
    } else {
      widen(cos_, stride_, stride), widen(sin_, stride_, stride);
    }
    stride_ = stride;
  }
  const float *cos = input.cos.const_data_ptr<float>(), *sin = input.sin.const_data_ptr<float>();
  for (; known_ < last; ++known_) {
    const int64_t row = (known_ - input.offset) * half;
    for (int64_t c = 0; c < half; ++c) {
      cos_[c * stride_ + known_] = cos[row + c], sin_[c * stride_ + known_] = sin[row + c];
    }
  }
}

LiveTokens::LiveTokens(const CacheShape& shape, const Setup& setup)
    : query_heads_(shape.query_heads),
      all_kv_heads_(shape.kv_heads),
      group_(shape.query_heads / shape.kv_heads),
      head_dim_(shape.head_dim),
      setup_(setup),
      value_width_((shape.head_dim + kValueBlock - 1) / kValueBlock * kValueBlock) {
  view_.first_kv_head = setup.first_kv_head, view_.kv_heads = setup.kv_heads;
  view_.first_head = setup.first_kv_head * group_, view_.heads = setup.kv_heads * group_;
  view_.head_dim = head_dim_;
  query_.resize(static_cast<size_t>(group_ * head_dim_));
  output_.resize(static_cast<size_t>(group_ * value_width_));
  grow(setup.room);
}

void LiveTokens::grow(int64_t room) {
  const int64_t before = stride_, heads = setup_.kv_heads;
  stride_ = stride_of(room);
  auto resize = [&](auto& rows, int64_t count) {
    if (before == 0) {
      rows.assign(static_cast<size_t>(count * stride_), 0);
    } else {
      widen(rows, before, stride_);
    }
  };
  resize(keys_, heads * head_dim_);
  resize(unturned_, setup_.angles != nullptr ? heads * head_dim_ : 0);
  resize(weights_, setup_.weighs ? view_.heads : 0);
  resize(memory_, setup_.numbers);
  if (setup_.attends) {
    // A head's rows stay what they are; more come behind them.
    std::vector<float> values(static_cast<size_t>(heads * stride_ * value_width_), 0.0f);
    for (int64_t h = 0; h < heads && before > 0; ++h) {
      std::copy_n(values_.begin() + h * before * value_width_, before * value_width_,
                  values.begin() + h * stride_ * value_width_);
    }
    values_ = std::move(values);
  }
  place_.resize(static_cast<size_t>(stride_));
  std::iota(place_.begin() + before, place_.end(), static_cast<int32_t>(before));
  positions_.reserve(static_cast<size_t>(stride_));
  view_.stride = stride_, view_.keys = keys_.data();
  if (setup_.weighs) view_.weights = weights_.data();
}

void LiveTokens::show() {
  view_.positions = positions_;
  view_.newest = slots() - 1;
  // The last slot is the newest until a token is given up and the last one moves.
  while (view_.newest > 0 && positions_[view_.newest] != view_.query) --view_.newest;
}

void LiveTokens::enter(int64_t i, const LiveChunk& chunk) {
  if (slots() == stride_) grow(2 * stride_);
  positions_.push_back(static_cast<int32_t>(i));
  view_.query = i;
  show();
  const int64_t slot = slots() - 1;
  for (int64_t n = 0; n < setup_.numbers; ++n) memory_[n * stride_ + slot] = 0;
  auto row = [&](const float* rows, int64_t h, int64_t token) {
    return rows + ((token - chunk.offset) * all_kv_heads_ + setup_.first_kv_head + h) * head_dim_;
  };
  auto take = [&](const LiveSide& side, auto&& write) {
    for (int64_t h = 0; h < setup_.kv_heads; ++h) {
      const int32_t* at = side.rounded_at == nullptr
                              ? nullptr
                              : side.rounded_at + (setup_.first_kv_head + h) * chunk.tokens - chunk.offset;
      const bool rounded = side.rounded != nullptr && (at == nullptr || i >= at[i]);
      write(h, slot, row(rounded ? side.rounded : side.exact, h, i));
      if (side.rounded == nullptr || at == nullptr) continue;
      for (int64_t s = 0; s < slot; ++s) {
        if (at[positions_[s]] == i) write(h, s, row(side.rounded, h, positions_[s]));
      }
    }
  };
  take(chunk.keys, [&](int64_t h, int64_t s, const float* key) { write_key(h, s, key); });
  if (!setup_.attends) return;
  take(chunk.values, [&](int64_t h, int64_t s, const float* value) { write_value(h, s, value); });
}

void LiveTokens::write_key(int64_t h, int64_t slot, const float* key) {
  const bool later = setup_.angles != nullptr;
  float* rows = (later ? unturned_ : keys_).data() + h * head_dim_ * stride_;
  for (int64_t c = 0; c < head_dim_; ++c) rows[c * stride_ + slot] = key[c];
  if (later && slot < settled_) {
    turn_columns(rows, head_dim_ / 2, stride_, setup_.angles->cos(), setup_.angles->sin(),
                 setup_.angles->stride(), slot, slot + 1, keys_.data() + h * head_dim_ * stride_);
  }
  if (setup_.numbers > 0 && (!later || slot < settled_)) changed_.push_back(slot);
}

void LiveTokens::write_value(int64_t h, int64_t slot, const float* value) {
  std::copy_n(value, head_dim_, values_.data() + (h * stride_ + place_[slot]) * value_width_);
}

void LiveTokens::settle() {
  if (setup_.angles == nullptr || settled_ == slots()) return;
  for (int64_t h = 0; h < setup_.kv_heads; ++h) {
    const int64_t first = h * head_dim_ * stride_;
    turn_columns(unturned_.data() + first, head_dim_ / 2, stride_, setup_.angles->cos(), setup_.angles->sin(),
                 setup_.angles->stride(), settled_, slots(), keys_.data() + first);
  }
  for (int64_t s = settled_; s < slots() && setup_.numbers > 0; ++s) changed_.push_back(s);
  settled_ = slots();
}

void LiveTokens::take_changed(std::vector<int64_t>& slots) {
  slots.clear();
  slots.swap(changed_);
}

void LiveTokens::attend(const float* q, const LiveChunk& chunk) {
  const int64_t d = head_dim_, half = d / 2;
  const float scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(d)));
  for (int64_t h = 0; h < setup_.kv_heads; ++h) {
    const float* rows = q + (view_.first_head + h * group_) * d;
    for (int64_t x = 0; x < group_ * d; ++x) query_[x] = rows[x] * scale;
    if (setup_.angles != nullptr) {
      // Back to before RoPE, and on to the newest one's rank.
      const float* cos = chunk.cos + (view_.query - chunk.offset) * half;
      const float* sin = chunk.sin + (view_.query - chunk.offset) * half;
      const float *rank_cos = setup_.angles->cos() + slots() - 1,
                  *rank_sin = setup_.angles->sin() + slots() - 1;
      const int64_t step = setup_.angles->stride();
      for (int64_t g = 0; g < group_; ++g) {
        float *low = query_.data() + g * d, *high = low + half;
        for (int64_t c = 0; c < half; ++c) {
          const float a = low[c] * cos[c] + high[c] * sin[c], b = high[c] * cos[c] - low[c] * sin[c];
          low[c] = a * rank_cos[c * step] - b * rank_sin[c * step];
          high[c] = b * rank_cos[c * step] + a * rank_sin[c * step];
        }
      }
    }
    float* weights = weights_.data() + h * group_ * stride_;
    score(query_.data(), static_cast<int>(group_), static_cast<int>(d), keys_.data() + h * d * stride_,
          stride_, static_cast<int>(slots()), weights);
    for (int64_t r = 0; r < group_; ++r) softmax(weights + r * stride_, static_cast<int>(slots()));
  }
}

void LiveTokens::output(float* out) {
  for (int64_t h = 0; h < setup_.kv_heads; ++h) {
    weigh(weights_.data() + h * group_ * stride_, static_cast<int>(group_), stride_, slots(),
          values_.data() + h * stride_ * value_width_, place_.data(), value_width_, output_.data());
    for (int64_t g = 0; g < group_; ++g) {
      std::copy_n(output_.data() + g * value_width_, head_dim_,
                  out + (view_.first_head + h * group_ + g) * head_dim_);
    }
  }
}

template <class Number>
void LiveTokens::close_gaps(std::vector<Number>& rows, std::span<const int64_t> gone) const {
  for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(stride_)) {
    Number* row = rows.data() + begin;
    int64_t to = gone.front();
    for (size_t g = 0; g < gone.size(); ++g) {
      const int64_t from = gone[g] + 1, end = g + 1 < gone.size() ? gone[g + 1] : slots();
      std::copy(row + from, row + end, row + to);
      to += end - from;
    }
  }
}

template <class Number>
void LiveTokens::move_slot(std::vector<Number>& rows, int64_t from, int64_t to) const {
  for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(stride_))
    rows[row + to] = rows[row + from];
}

void LiveTokens::give_up(std::span<const int64_t> gone) {
  if (gone.empty()) return;
  const auto left = static_cast<size_t>(slots()) - gone.size();
  if (setup_.angles != nullptr) {
    std::vector<int32_t> free;
    for (int64_t slot : gone) free.push_back(place_[slot]);
    close_gaps(unturned_, gone), close_gaps(weights_, gone), close_gaps(memory_, gone);
    close_gaps(positions_, gone), close_gaps(place_, gone);
    std::copy(free.begin(), free.end(), place_.begin() + static_cast<int64_t>(left));
    settled_ = std::min(settled_, gone.front());
  } else {
    int64_t last = slots() - 1;
    for (size_t g = gone.size(); g-- > 0; --last) {
      const int64_t slot = gone[g];
      move_slot(memory_, last, slot), move_slot(keys_, last, slot), move_slot(weights_, last, slot);
      positions_[slot] = positions_[last];
      std::swap(place_[slot], place_[last]);
    }
  }
  positions_.resize(left);
  show();
}

int64_t LiveTokens::bytes() const {
  return bytes_of(positions_) + bytes_of(place_) + bytes_of(unturned_) + bytes_of(keys_) + bytes_of(values_) +
         bytes_of(weights_) + bytes_of(memory_);
}

}  // namespace kvcost
