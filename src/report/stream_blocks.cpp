#include "src/report/stream_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/report/layout.h"

namespace kvcost {
namespace {

size_t blocks_of(const StreamResult& result) {
  return static_cast<size_t>((result.tokens - 1) / result.block_tokens + 1);
}

}  // namespace

std::vector<BlockSpan> doubling_spans(const StreamResult& result, size_t most) {
  const size_t blocks = blocks_of(result);
  for (size_t width = 1;; width *= 2) {
    std::vector<BlockSpan> spans = {{0, std::min(width, blocks)}};
    for (size_t first = width; first < blocks; first *= 2) {
      spans.push_back({first, std::min(2 * first, blocks)});
    }
    if (spans.size() <= most) return spans;
  }
}

std::vector<BlockSpan> split_doublings(const StreamResult& result, size_t parts) {
  const size_t blocks = blocks_of(result);
  std::vector<BlockSpan> spans;
  for (size_t first = 0, doubling = 1; first < blocks;) {
    while (2 * doubling <= first) doubling *= 2;
    const size_t last = std::min(first + std::max<size_t>(1, doubling / parts), blocks);
    spans.push_back({first, last});
    first = last;
  }
  return spans;
}

std::optional<SpanLoss> span_loss(const StreamResult& result, const StreamRow& row, const BlockSpan& span) {
  const size_t last = std::min(span.last, row.block_loss_bits.size());
  if (span.first >= last) return std::nullopt;
  double count = 0, sum = 0;
  for (size_t b = span.first; b < last; ++b) {
    const auto tokens = static_cast<double>(result.scored(row, b));
    count += tokens, sum += tokens * row.block_loss_bits[b];
  }
  SpanLoss made;
  made.loss.mean = sum / count;
  double squares = 0;
  for (size_t b = span.first; b < last; ++b) {
    const auto tokens = static_cast<double>(result.scored(row, b));
    const double apart = row.block_loss_bits[b] - made.loss.mean;
    squares += tokens * apart * apart;
    if (tokens > 1) squares += (tokens - 1) * row.block_sd_bits[b] * row.block_sd_bits[b];
  }
  made.loss.standard_error = std::sqrt(squares / (count - 1) / count);
  made.whole = row.tokens >= end_of(result, span);
  return made;
}

std::string short_position(int64_t tokens) {
  return tokens % 1024 == 0 && tokens > 0 ? with_commas(tokens / 1024) + "k" : with_commas(tokens);
}

std::string span_name(const StreamResult& result, const BlockSpan& span) {
  return short_position(first_of(result, span)) + "-" + short_position(end_of(result, span));
}

int64_t first_of(const StreamResult& result, const BlockSpan& span) {
  return static_cast<int64_t>(span.first) * result.block_tokens;
}

int64_t end_of(const StreamResult& result, const BlockSpan& span) {
  return std::min(static_cast<int64_t>(span.last) * result.block_tokens, result.tokens);
}

}  // namespace kvcost
