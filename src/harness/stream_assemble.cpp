#include "src/harness/stream_assemble.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "src/harness/statistics.h"
#include "src/model/formats/safetensors.h"

namespace kvcost {
namespace {

/// Losses of the tokens at first .. last - 1; the token at 0 has none.
std::span<const double> losses_of(const Unit& unit, int64_t first, int64_t last) {
  first = std::max<int64_t>(first, 1);
  return std::span(unit.loss_bits).subspan(static_cast<size_t>(first - 1), static_cast<size_t>(last - first));
}

int64_t tokens_of(const Unit& unit) { return static_cast<int64_t>(unit.loss_bits.size()) + 1; }

/// The tokens at first .. last - 1, cut at multiples of `block`. Blocks stand for windows in an interval, so
/// a last one of less than half goes with the one before.
std::vector<std::vector<double>> blocks_of(const Unit& unit, int64_t first, int64_t last, int64_t block) {
  std::vector<std::vector<double>> blocks;
  for (int64_t begin = std::max<int64_t>(first, 1); begin < last;) {
    int64_t end = std::min((begin / block + 1) * block, last);
    if (2 * (last - end) < block) end = last;
    const std::span<const double> part = losses_of(unit, begin, end);
    blocks.emplace_back(part.begin(), part.end());
    begin = end;
  }
  return blocks;
}

StreamDelta delta_of(const Unit& row, const Unit& other, int64_t first, int64_t last, int64_t block) {
  const PairedDifference paired =
      paired_difference(blocks_of(row, first, last, block), blocks_of(other, first, last, block));
  return {{paired.mean, paired.standard_error}, paired.low, paired.high};
}

void fill_blocks(StreamRow& row, const Unit& unit, int64_t block) {
  for (int64_t first = 0; first < row.tokens; first += block) {
    const std::span<const double> losses = losses_of(unit, first, std::min(first + block, row.tokens));
    row.block_loss_bits.push_back(mean(losses));
    row.block_sd_bits.push_back(standard_deviation(losses));
  }
}

/// The config less where positions are counted.
nlohmann::json without_positions(const StreamRow& row) {
  nlohmann::json config = row.config;
  if (config.contains("evict")) config["evict"].erase("positions");
  return config;
}

}  // namespace

void assemble_stream(StreamResult& result, const std::vector<Unit>& units) {
  const int64_t block = result.block_tokens, trained = result.trained_tokens;
  for (size_t r = 0; r < units.size(); ++r) {
    StreamRow& row = result.rows[r];
    const Unit& unit = units[r];
    row.tokens = tokens_of(unit);
    row.chunk = unit.chunk;
    row.tokens_kept = unit.tokens_kept;
    row.cache_bytes = unit.cache_bytes;
    row.peak_bytes = unit.peak_bytes;
    row.seconds = unit.seconds;
    fill_blocks(row, unit, block);
    if (row.tokens > trained) {
      const std::span<const double> past = losses_of(unit, trained, row.tokens);
      row.past_trained =
          StreamMean{mean(past), standard_deviation(past) / std::sqrt(static_cast<double>(past.size()))};
    }
    if (r > 0)
      row.against_full = delta_of(unit, units[0], 1, std::min(row.tokens, tokens_of(units[0])), block);
    if (!row.renumbered || row.tokens <= trained) continue;
    for (size_t other = 0; other < units.size(); ++other) {
      const StreamRow& twin = result.rows[other];
      const bool is_twin = !twin.renumbered && without_positions(twin) == without_positions(row);
      if (!is_twin || tokens_of(units[other]) != row.tokens) continue;
      row.renumbering = delta_of(unit, units[other], trained, row.tokens, block);
      row.renumbering_of = twin.name;
      break;
    }
  }
}

void write_stream_losses(const StreamResult& result, const std::vector<Unit>& units,
                         const std::filesystem::path& path) {
  SafetensorsWriter writer;
  for (size_t r = 0; r < units.size(); ++r) {
    const std::vector<double>& exact = units[r].loss_bits;
    writer.add(result.rows[r].name, std::vector<float>(exact.begin(), exact.end()));
  }
  writer.set_metadata("unit", "loss in bits; entry t - 1 is that of the token at position t");
  writer.write(path);
}

}  // namespace kvcost
