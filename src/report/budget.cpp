#include "src/report/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/report/layout.h"

namespace kvcost {
namespace {

using Align = TextGrid::Align;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr int64_t kMostKindsOfBlock = 4096;

// ---- The articles' tables ----------------------------------------------------------------------

struct Lever {
  const char* name;
  double bits, share_of_tokens;
  int64_t kv_heads;
};

std::string decimal(double number) {
  std::string digits = fmt::format("{}", number);
  return digits.find('.') == std::string::npos ? digits + ".0" : digits;
}

// ---- Any model ---------------------------------------------------------------------------------

CacheShape shape_of(const CacheModel& model, int64_t tokens) {
  CacheShape shape;
  shape.layers = static_cast<int>(model.layers);
  shape.query_heads = model.query_heads > 0 ? model.query_heads : model.kv_heads;
  shape.kv_heads = model.kv_heads;
  shape.head_dim = model.head_dim;
  // The whole context is a prompt: a policy that compresses once has done so by its end.
  shape.tokens = shape.prompt = tokens;
  return shape;
}

/// Keys or values of one layer.
struct Side {
  const Codec* codec = nullptr;
  const nlohmann::json* config = nullptr;
  std::vector<uint8_t> rounded;  ///< [tokens]
};

Side make_side(const Codec* codec, const nlohmann::json& row, const char* key, const CacheShape& shape,
               int64_t exact_last) {
  Side side{codec, codec != nullptr ? &row.at(key) : nullptr,
            std::vector<uint8_t>(static_cast<size_t>(shape.tokens), 0)};
  if (codec == nullptr) return side;
  codec->check(shape);
  std::vector<int32_t> rounded_at(side.rounded.size());
  codec->lifetimes(shape, exact_last, rounded_at);
  for (size_t j = 0; j < rounded_at.size(); ++j) side.rounded[j] = rounded_at[j] < shape.tokens;
  return side;
}

int64_t side_bits(const Side& side, const CacheShape& shape, const std::vector<uint8_t>& kept) {
  Holding holding{kept, {}};
  int64_t exact = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    holding.rounded.push_back(side.rounded[i % side.rounded.size()]);
    exact += kept[i] != 0 && holding.rounded.back() == 0;
  }
  return exact * shape.head_dim * kExactBits +
         (side.codec != nullptr ? side.codec->stored_bits(shape, holding) : 0);
}

/// Bits of tokens [first, first + count) and the groups they are of, every KV head.
int64_t bits_of_run(const Codec& codec, CacheShape shape, int64_t first, int64_t count) {
  shape.tokens = shape.prompt = first + count;
  Holding holding;
  holding.kept.assign(static_cast<size_t>(shape.kv_heads * shape.tokens), 0);
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    std::fill_n(holding.kept.begin() + h * shape.tokens + first, count, uint8_t{1});
  }
  holding.rounded = holding.kept;
  return codec.stored_bits(shape, holding);
}

/// After how many tokens the codec's groups repeat: what a run of tokens takes depends on its start by this.
int64_t group_tokens(const nlohmann::json& config) {
  if (config.value("axis", nlohmann::json()) != "channel") return 1;
  return config.value("group", int64_t{1});
}

/// Bits of a code; 0 if the codec does not say.
int64_t code_bits(const nlohmann::json& config) {
  if (config.value("codec", nlohmann::json()) == "fp8") return 8;
  auto bits = config.find("bits");
  return bits != config.end() && bits->is_number_integer() ? bits->get<int64_t>() : 0;
}

/// One layer's blocks of one side.
struct SideBlocks {
  int64_t blocks = 0;
  double bits = 0, metadata_bits = 0;  ///< of all blocks, full
  double empty_bits = 0, stored_bits = 0;

  void operator+=(const SideBlocks& other) {
    blocks += other.blocks;
    bits += other.bits;
    metadata_bits += other.metadata_bits;
    empty_bits += other.empty_bits;
    stored_bits += other.stored_bits;
  }
};

SideBlocks blocks_of(const Side& side, const CacheShape& shape, int64_t exact, int64_t rounded_tokens,
                     int64_t block) {
  const int64_t numbers = shape.kv_heads * shape.head_dim;
  SideBlocks out;
  const int64_t exact_blocks = (exact + block - 1) / block;
  out.blocks = exact_blocks;
  out.bits = static_cast<double>(exact_blocks * block * numbers * kExactBits);
  out.stored_bits = static_cast<double>(exact * numbers * kExactBits);
  out.empty_bits = out.bits - out.stored_bits;
  if (rounded_tokens == 0) return out;

  const int64_t period = group_tokens(*side.config), blocks = (rounded_tokens + block - 1) / block;
  // Channel groups lie inside one head, and every head is alike.
  CacheShape part = shape;
  int64_t times = 1;
  if (period > 1) times = shape.kv_heads, part.kv_heads = 1;
  const int64_t kinds = std::min(blocks, period / std::gcd(period, block));
  if (kinds > kMostKindsOfBlock) {
    throw InputError(
        fmt::format("--block: found blocks of {} tokens with a channel group of {}, which makes {} kinds "
                    "of block; expected at most {}",
                    block, period, kinds, kMostKindsOfBlock));
  }
  int64_t largest = 0;
  for (int64_t b = 0; b < kinds; ++b) {
    largest = std::max(largest, times * bits_of_run(*side.codec, part, b * block % period, block));
  }
  const int64_t last = (blocks - 1) * block;
  const int64_t last_full = times * bits_of_run(*side.codec, part, last % period, block);
  const int64_t last_held = times * bits_of_run(*side.codec, part, last % period, rounded_tokens - last);
  out.blocks += blocks;
  out.bits += static_cast<double>(blocks * largest);
  out.empty_bits += static_cast<double>(last_full - last_held);
  out.stored_bits += static_cast<double>(times * bits_of_run(*side.codec, part, 0, rounded_tokens));
  const int64_t codes = code_bits(*side.config);
  out.metadata_bits = codes > 0 ? static_cast<double>(blocks * (largest - codes * block * numbers))
                                : std::numeric_limits<double>::quiet_NaN();
  return out;
}

/// Summed over keys and values, and then over layers.
struct LayerBudget {
  double tokens = 0;  ///< kept, over KV heads
  double bits = 0;
  SideBlocks blocks;

  void operator+=(const LayerBudget& other) {
    tokens += other.tokens;
    bits += other.bits;
    blocks += other.blocks;
  }
};

LayerBudget layer_budget(std::span<const Side> sides, const CacheShape& shape,
                         const std::vector<int32_t>& evicted_at, std::optional<int64_t> block) {
  const int64_t T = shape.tokens;
  std::vector<uint8_t> kept(evicted_at.size());
  std::transform(evicted_at.begin(), evicted_at.end(), kept.begin(), [&](int32_t at) { return at >= T; });
  LayerBudget out;
  out.tokens = static_cast<double>(std::accumulate(kept.begin(), kept.end(), int64_t{0}));
  for (const Side& side : sides) {
    out.bits += static_cast<double>(side_bits(side, shape, kept));
    if (!block) continue;
    // Heads of a layer share its blocks, so the fullest one counts.
    int64_t most_exact = 0, most_rounded = 0;
    for (int64_t h = 0; h < shape.kv_heads; ++h) {
      int64_t exact = 0, rounded = 0;
      for (int64_t j = 0; j < T; ++j) {
        if (kept[h * T + j] != 0) ++(side.rounded[j] != 0 ? rounded : exact);
      }
      most_exact = std::max(most_exact, exact);
      most_rounded = std::max(most_rounded, rounded);
    }
    out.blocks += blocks_of(side, shape, most_exact, most_rounded, *block);
  }
  return out;
}

std::string bytes_text(double bytes) {
  if (bytes >= kGiB) return with_commas(bytes / kGiB, 2) + " GiB";
  if (bytes >= 1024 * 1024) return with_commas(bytes / 1024 / 1024, 2) + " MiB";
  if (bytes >= 1024) return with_commas(bytes / 1024, 2) + " KiB";
  return with_commas(bytes, 0) + " B";
}

std::string counted(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : "s");
}

/// How many sequences of `bytes` fit beside the weights.
std::string fitting(const CacheModel& model, uint64_t memory, double bytes) {
  uint64_t weights = model.weight_bytes.value_or(0);
  if (weights >= memory) return "0";
  if (bytes <= 0) return "-";
  return with_commas(static_cast<int64_t>(std::floor(static_cast<double>(memory - weights) / bytes)));
}

void positive(const std::string& model, const char* what, int64_t found, int64_t most) {
  if (found >= 1 && found <= most) return;
  throw InputError(fmt::format("{}: found {} {}, expected from 1 to {}", model, found, what, most));
}

}  // namespace

std::string eviction_article_budget() {
  constexpr int64_t layers = 40, heads = 40, head_dim = 128, context = 32768;
  // Group scales are counted: a 16-bit scale and zero-point for 32 numbers make one more bit a number.
  constexpr Lever levers[] = {{"BF16, every token (baseline)", 16, 1.0, heads},
                              {"if it had 8 KV heads (GQA)", 16, 1.0, 8},
                              {"4-bit K and V", 4 + 1, 1.0, heads},
                              {"2-bit K and V (KIVI)", 2 + 1, 1.0, heads},
                              {"keep a quarter of the tokens", 16, 0.25, heads},
                              {"GQA-8 + 4-bit + a quarter of the tokens", 4 + 1, 0.25, 8}};
  constexpr double full = 2 * layers * heads * head_dim * 2;
  std::string out =
      fmt::format("{:42} {:>16} {:>17} {:>12}\n", "", "bytes per token", "one 32k sequence", "vs baseline");
  for (const Lever& lever : levers) {
    double bytes = 2.0 * layers * static_cast<double>(lever.kv_heads) * head_dim * lever.bits / 8 *
                   lever.share_of_tokens;
    out += fmt::format("{:42} {:>14} B {:13.2f} GiB {:10.1f}%\n", lever.name, with_commas(bytes, 0),
                       bytes * context / kGiB, 100 * bytes / full);
  }
  return out;
}

std::string bytes_per_token_article_budget() {
  constexpr int64_t layers = 80, query_heads = 64, kv_heads = 8, head_dim = 128, context = 32768;
  constexpr int64_t numbers = 2 * layers * kv_heads * head_dim;
  struct Type {
    const char *name, *bytes_text;
    double bytes;
  };
  constexpr Type types[] = {{"fp16", "2", 2}, {"int8", "1", 1}, {"int4", "0.5", 0.5}};
  std::string out = fmt::format("elems_per_token = 2 × {} × {} × {} = {} numbers\n\n", layers, kv_heads,
                                head_dim, with_commas(numbers));
  for (const Type& type : types) {
    double bytes = static_cast<double>(numbers) * type.bytes;
    out += fmt::format("  {:14}{} × {:3} = {:>7} B  ≈ {:>3} KB / token\n",
                       fmt::format("{} ({} B):", type.name, type.bytes_text), with_commas(numbers),
                       type.bytes_text, with_commas(bytes, 0), with_commas(bytes / 1024, 0));
  }
  out += "\n";
  for (const Type& type : types) {
    double bytes = static_cast<double>(numbers) * type.bytes;
    out += fmt::format("  {}:  {:>3} KB × {} ≈ {:4.1f} GB\n", type.name, with_commas(bytes / 1024, 0),
                       with_commas(context), bytes * context / kGiB);
  }
  struct Group {
    const char *symmetry, *metadata_text;
    int64_t size, metadata_bits;
  };
  constexpr Group groups[] = {{"symmetric,", "16/128", 128, 16},
                              {"asymmetric,", "(16+16)/128", 128, 32},
                              {"asymmetric,", "32/32", 32, 32}};
  out += "\n";
  for (const Group& group : groups) {
    double bits = 4 + static_cast<double>(group.metadata_bits) / static_cast<double>(group.size);
    out += fmt::format("int4, {:11} group {:5} 4 + {:11} = {:5} bits/elem\n", group.symmetry,
                       fmt::format("{}:", group.size), group.metadata_text, decimal(bits));
  }
  out += fmt::format("\ntimes smaller than fp16 with {} KV heads:\n{:23}", query_heads, "");
  for (const Type& type : types) out += fmt::format(" {:>5}", type.name);
  out += "\n";
  struct Sharing {
    const char* name;
    int64_t heads;
  };
  constexpr Sharing sharings[] = {{"multi-head", query_heads}, {"GQA", kv_heads}, {"MQA", 1}};
  for (const Sharing& sharing : sharings) {
    out += fmt::format("{:23}", fmt::format("{}, {}", sharing.name, counted(sharing.heads, "KV head")));
    for (const Type& type : types) {
      double times = 2 / type.bytes * static_cast<double>(query_heads) / static_cast<double>(sharing.heads);
      out += fmt::format(" {:4.0f}×", times);
    }
    out += "\n";
  }
  return out;
}

void check_budget(const CacheModel& model, const BudgetRequest& request) {
  positive(model.name, "layers", model.layers, 10'000);
  positive(model.name, "KV heads", model.kv_heads, 65'536);
  positive(model.name, "channels in a head", model.head_dim, 65'536);
  positive("--context", "tokens", request.context, int64_t{1} << 24);
  positive("--batch", "sequences", request.batch, 1'000'000);
  if (request.block) positive("--block", "tokens", *request.block, 65'536);
  if (model.kv_heads * request.context > int64_t{1} << 28) {
    throw InputError(fmt::format("--context: found {} tokens of {} KV heads, expected at most {} together",
                                 request.context, model.kv_heads, int64_t{1} << 28));
  }
}

RowBudget row_budget(const CacheModel& model, const BudgetRequest& request, const nlohmann::json& row,
                     const std::string& name, const std::string& path) {
  RowCache cache(row, path);
  CacheShape shape = shape_of(model, request.context);
  const int64_t T = shape.tokens;
  const Side sides[] = {make_side(cache.key_codec(), row, "keys", shape, cache.exact_last()),
                        make_side(cache.value_codec(), row, "values", shape, cache.exact_last())};
  const auto policies = cache.policies(shape.layers);
  std::vector<int32_t> evicted_at(static_cast<size_t>(shape.kv_heads * T), kNever), before;
  LayerBudget layer, all;
  for (shape.layer = 0; shape.layer < shape.layers; ++shape.layer) {
    const Policy* policy = policies.empty() ? nullptr : policies[shape.layer].get();
    const auto* by_position = dynamic_cast<const PositionPolicy*>(policy);
    for (int64_t h = 0; policy != nullptr && h < shape.kv_heads; ++h) {
      const std::span head(evicted_at.data() + h * T, static_cast<size_t>(T));
      if (by_position != nullptr) {
        by_position->lifetimes(shape, h, head);
      } else {
        std::fill(head.begin(), head.end(), kNever);
        std::fill_n(head.begin(), T - std::min(policy->tokens_held(shape), T), 0);
      }
    }
    if (shape.layer == 0 || evicted_at != before) {
      layer = layer_budget(sides, shape, evicted_at, request.block);
      before = evicted_at;
    }
    all += layer;
  }

  const double layers = static_cast<double>(model.layers);
  RowBudget out;
  out.name = name;
  out.tokens_kept = all.tokens / (layers * static_cast<double>(model.kv_heads));
  out.bytes = all.bits / 8;
  out.bits = all.tokens > 0 ? all.bits / (2 * all.tokens * static_cast<double>(model.head_dim)) : 0;
  if (request.block && all.blocks.blocks > 0) {
    const SideBlocks& b = all.blocks;
    const double blocks = static_cast<double>(b.blocks);
    out.paged = PagedBytes{std::llround(blocks / layers),
                           b.bits / 8 / blocks,
                           b.metadata_bits / 8 / blocks,
                           b.empty_bits / 8,
                           (b.bits - b.stored_bits - b.empty_bits) / 8,
                           b.bits / 8};
  }
  return out;
}

std::string budget_table(const CacheModel& model, const BudgetRequest& request,
                         const std::vector<RowBudget>& rows) {
  const int64_t numbers = 2 * model.layers * model.kv_heads * model.head_dim;
  const double context = static_cast<double>(request.context);
  std::vector<RowBudget> all = {
      row_budget(model, request, nlohmann::json::object(), "16 bits, every token", "baseline")};
  all.insert(all.end(), rows.begin(), rows.end());

  std::string out = fmt::format("{}: {} × {} of {}, {} numbers per token", printable(model.name),
                                counted(model.layers, "layer"), counted(model.kv_heads, "KV head"),
                                with_commas(model.head_dim), with_commas(numbers));
  if (model.weight_bytes) {
    out += fmt::format("; weights at 16 bits {}", bytes_text(static_cast<double>(*model.weight_bytes)));
  }
  out += fmt::format("\n{} of {}\n", counted(request.batch, "sequence"), counted(request.context, "token"));

  const std::string fit = request.memory_bytes
                              ? "fit in " + bytes_text(static_cast<double>(*request.memory_bytes))
                              : std::string();
  std::vector<Align> columns = {Align::left, Align::right, Align::right, Align::right, Align::right};
  std::vector<std::string> header = {"", "bytes per token", "one sequence", "vs 16 bits", "bits"};
  if (request.batch > 1)
    columns.push_back(Align::right), header.push_back("batch of " + with_commas(request.batch));
  if (!fit.empty()) columns.push_back(Align::right), header.push_back(fit);
  TextGrid grid(columns);
  grid.row(header);
  for (const RowBudget& row : all) {
    std::vector<std::string> cells = {
        printable(row.name), with_commas(row.bytes / context, 0) + " B", bytes_text(row.bytes),
        fmt::format("{:.1f}%", 100 * row.bytes / all[0].bytes), fmt::format("{:.3f}", row.bits)};
    if (request.batch > 1) cells.push_back(bytes_text(row.bytes * static_cast<double>(request.batch)));
    if (!fit.empty()) cells.push_back(fitting(model, *request.memory_bytes, row.bytes));
    grid.row(cells);
  }
  out += grid.text();
  if (!fit.empty()) {
    if (!model.weight_bytes) {
      out += "sequences that fit: weights not counted, their size is not known (--weights SIZE)\n";
    } else if (*model.weight_bytes >= *request.memory_bytes) {
      out += "sequences that fit: none, the weights alone take more\n";
    } else {
      out += "sequences that fit: beside the weights\n";
    }
  }
  if (!request.block) return out;

  out += fmt::format("\nin blocks of {}:\n", counted(*request.block, "token"));
  std::vector<Align> paged_columns(fit.empty() ? 7 : 8, Align::right);
  paged_columns[0] = Align::left;
  TextGrid pages(paged_columns);
  header = {"", "blocks", "B/block", "scales B", "empty slots", "scales again", "one sequence"};
  if (!fit.empty()) header.push_back(fit);
  pages.row(header);
  for (const RowBudget& row : all) {
    if (!row.paged) continue;
    const PagedBytes& p = *row.paged;
    std::vector<std::string> cells = {
        printable(row.name),           with_commas(p.blocks),
        with_commas(p.block_bytes, 0), std::isnan(p.metadata_bytes) ? "-" : with_commas(p.metadata_bytes, 1),
        bytes_text(p.empty_bytes),     bytes_text(p.repeated_bytes),
        bytes_text(p.total_bytes)};
    if (!fit.empty()) cells.push_back(fitting(model, *request.memory_bytes, p.total_bytes));
    pages.row(cells);
  }
  out += pages.text();
  out +=
      "blocks: of keys and of values, one layer; scales B: scales and offsets in a block; empty slots: of "
      "last\nblocks; scales again: groups that lie in more than one block, each of which carries their "
      "scale\n";
  out += fmt::format("a sequence of any length leaves half a block empty on average: {} at 16 bits\n",
                     bytes_text(static_cast<double>((*request.block - 1) * numbers * kExactBits) / 16));
  return out;
}

uint64_t parse_size(std::string_view text, const std::string& what) {
  auto refuse = [&]() {
    throw InputError(
        fmt::format("{}: found '{}', expected a size like 24GiB, 24GB or 4096MiB", what, printable(text)));
  };
  std::string digits;
  size_t at = 0;
  while (at < text.size() && ((text[at] >= '0' && text[at] <= '9') || text[at] == '.')) digits += text[at++];
  if (digits.empty() || digits.size() > 20 || std::count(digits.begin(), digits.end(), '.') > 1 ||
      digits.front() == '.' || digits.back() == '.') {
    refuse();
  }
  while (at < text.size() && text[at] == ' ') ++at;
  std::string_view unit = text.substr(at);
  static constexpr std::pair<std::string_view, double> units[] = {
      {"", 1},      {"B", 1},      {"kB", 1e3},        {"KB", 1e3},   {"MB", 1e6},         {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 1024}, {"MiB", 1048576.0}, {"GiB", kGiB}, {"TiB", 1024 * kGiB}};
  double scale = 0;
  for (const auto& [name, bytes] : units) {
    if (unit == name) scale = bytes;
  }
  if (scale == 0) refuse();
  double bytes = std::stod(digits) * scale;
  if (!(bytes >= 1 && bytes < 9e18)) refuse();
  return static_cast<uint64_t>(std::llround(bytes));
}

}  // namespace kvcost
