#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/harness/config/stream_result.h"

namespace kvcost {

/// Blocks first .. last - 1 of a stream's result, taken as one.
struct BlockSpan {
  size_t first = 0, last = 0;
};

/// Spans that double in length after the second, the first as short as `most` of them allow.
std::vector<BlockSpan> doubling_spans(const StreamResult& result, size_t most);
/// Up to `parts` equal spans for each doubling of the position.
std::vector<BlockSpan> split_doublings(const StreamResult& result, size_t parts);

struct SpanLoss {
  StreamMean loss;
  bool whole = true;  ///< false: the row ends inside the span
};
/// A row's loss over the tokens of a span; nullopt if the row ends before it.
std::optional<SpanLoss> span_loss(const StreamResult& result, const StreamRow& row, const BlockSpan& span);

/// 8192 -> "8k", k being 1,024 tokens; other numbers whole.
std::string short_position(int64_t tokens);
/// "8k-16k".
std::string span_name(const StreamResult& result, const BlockSpan& span);
/// Where the span begins, and its end or the text's.
int64_t first_of(const StreamResult& result, const BlockSpan& span);
int64_t end_of(const StreamResult& result, const BlockSpan& span);

}  // namespace kvcost
