#include "src/report/stream_chart.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/report/layout.h"
#include "src/report/stream_blocks.h"

namespace kvcost {
namespace {

constexpr size_t kPointsADoubling = 4;

}  // namespace

Chart stream_chart(const StreamResult& result) {
  const std::vector<BlockSpan> spans = split_doublings(result, kPointsADoubling);
  Chart chart;
  chart.heading = {
      fmt::format("{}, {} tokens as one text", shortened(result.model), with_commas(result.tokens)),
      fmt::format("means over {} tokens, four to a doubling further on", with_commas(result.block_tokens))};
  chart.x_label = "position in the text (tokens, log scale)";
  chart.y_label = "loss (bits per token)";
  chart.log_x = true;
  for (size_t r = 0; r < result.rows.size(); ++r) {
    const StreamRow& row = result.rows[r];
    Chart::Line line{shortened(row.name), {}, r == 0};
    for (const BlockSpan& span : spans) {
      const auto loss = span_loss(result, row, span);
      if (!loss) break;
      const auto end = static_cast<double>(std::min(end_of(result, span), row.tokens));
      line.points.push_back(
          {0.5 * (static_cast<double>(first_of(result, span)) + end), loss->loss.mean, {}, {}});
    }
    chart.lines.push_back(std::move(line));
  }
  for (int64_t at = 256; at <= result.tokens; at *= 2) {
    if (at >= result.block_tokens / 2) chart.x_tics.push_back({static_cast<double>(at), short_position(at)});
  }
  if (result.trained_tokens < result.tokens) {
    chart.x_marks.push_back({static_cast<double>(result.trained_tokens), "trained length"});
  }
  return chart;
}

}  // namespace kvcost
