#include "src/report/budget.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "src/base/error.h"
#include "src/report/layout.h"
#include "src/report/published.h"

namespace kvcost {
namespace {

using nlohmann::json;

const CacheModel kLlama = {"llama", 40, 40, 40, 128, uint64_t{26'000'000'000}};

json both(const char* codec) { return {{"keys", json::parse(codec)}, {"values", json::parse(codec)}}; }

RowBudget budget(const CacheModel& model, const json& row, int64_t context,
                 std::optional<int64_t> block = {}) {
  BudgetRequest request;
  request.context = context;
  request.block = block;
  check_budget(model, request);
  return row_budget(model, request, row, "row", "rows[0]");
}

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

// The output of the article's budget.py, byte for byte.
TEST(Budget, EvictionArticle) {
  EXPECT_EQ(eviction_article_budget(),
            "                                            bytes per token  one 32k sequence  vs baseline\n"
            "BF16, every token (baseline)                      819,200 B         25.00 GiB      100.0%\n"
            "if it had 8 KV heads (GQA)                        163,840 B          5.00 GiB       20.0%\n"
            "4-bit K and V                                     256,000 B          7.81 GiB       31.2%\n"
            "2-bit K and V (KIVI)                              153,600 B          4.69 GiB       18.8%\n"
            "keep a quarter of the tokens                      204,800 B          6.25 GiB       25.0%\n"
            "GQA-8 + 4-bit + a quarter of the tokens            12,800 B          0.39 GiB        1.6%\n");
}

// The lines the other article prints, byte for byte; the last table puts its sentence on GQA and MQA in rows.
TEST(Budget, BytesPerTokenArticle) {
  EXPECT_EQ(bytes_per_token_article_budget(),
            "elems_per_token = 2 × 80 × 8 × 128 = 163,840 numbers\n"
            "\n"
            "  fp16 (2 B):   163,840 × 2   = 327,680 B  ≈ 320 KB / token\n"
            "  int8 (1 B):   163,840 × 1   = 163,840 B  ≈ 160 KB / token\n"
            "  int4 (0.5 B): 163,840 × 0.5 =  81,920 B  ≈  80 KB / token\n"
            "\n"
            "  fp16:  320 KB × 32,768 ≈ 10.0 GB\n"
            "  int8:  160 KB × 32,768 ≈  5.0 GB\n"
            "  int4:   80 KB × 32,768 ≈  2.5 GB\n"
            "\n"
            "int4, symmetric,  group 128:  4 + 16/128      = 4.125 bits/elem\n"
            "int4, asymmetric, group 128:  4 + (16+16)/128 = 4.25  bits/elem\n"
            "int4, asymmetric, group 32:   4 + 32/32       = 5.0   bits/elem\n"
            "\n"
            "times smaller than fp16 with 64 KV heads:\n"
            "                         fp16  int8  int4\n"
            "multi-head, 64 KV heads    1×    2×    4×\n"
            "GQA, 8 KV heads            8×   16×   32×\n"
            "MQA, 1 KV head            64×  128×  256×\n");
}

// The same numbers from the real codecs and policies instead of the formula.
TEST(Budget, CodecsAndPoliciesGiveTheArticlesNumbers) {
  std::vector<PublishedBudgetRow> article = read_published(std::filesystem::path(KVCOST_SOURCE_DIR) /
                                                           "data/published/eviction_and_quantization.json")
                                                .budget;
  ASSERT_EQ(article.size(), 6u);
  const char* four = R"({"codec": "minmax", "bits": 4, "axis": "token", "group": 32, "scales": "fp16"})";
  const char* two = R"({"codec": "minmax", "bits": 2, "axis": "channel", "group": 32, "scales": "fp16"})";
  json quarter = {{"evict", {{"policy", "sinks"}, {"capacity", 8192}, {"sinks", 4}}}};
  json all_three = quarter;
  all_three.update(both(four));
  json rows[] = {json::object(), json::object(), both(four), both(two), quarter, all_three};
  for (size_t i = 0; i < article.size(); ++i) {
    CacheModel model = kLlama;
    model.layers = 1;  // every layer is alike
    model.kv_heads = article[i].kv_heads;
    RowBudget row = budget(model, rows[i], 32768);
    EXPECT_EQ(row.bytes / 32768 * 40, static_cast<double>(article[i].bytes_per_token)) << article[i].name;
    EXPECT_EQ(row.bits, article[i].bits_per_number) << article[i].name;
    EXPECT_EQ(row.tokens_kept, 32768 * article[i].share_of_tokens) << article[i].name;
  }
  EXPECT_EQ(
      budget(kLlama, both(R"({"codec": "minmax", "bits": 4, "axis": "token", "group": 128, "scales": "fp16",
                                    "symmetric": true})"),
             64)
          .bits,
      4.125);
  EXPECT_EQ(
      budget(kLlama,
             both(R"({"codec": "minmax", "bits": 4, "axis": "token", "group": 128, "scales": "fp16"})"), 64)
          .bits,
      4.25);
}

TEST(Budget, ExactWindowCountsSixteenBits) {
  CacheModel model = {"m", 2, 4, 2, 32, {}};
  json row = both(R"({"codec": "minmax", "bits": 4, "axis": "token", "group": 32, "scales": "fp16"})");
  row["exact_last"] = 28;
  RowBudget kivi = budget(model, row, 128);
  // 100 tokens of 5 bits and 28 of 16, on both sides.
  EXPECT_EQ(kivi.bytes, 2 * 2 * 2 * 32 * (100 * 5 + 28 * 16) / 8.0);
}

TEST(Budget, BlocksWasteTheirEmptySlots) {
  CacheModel model = {"m", 3, 4, 2, 32, {}};
  RowBudget row = budget(model, json::object(), 100, 16);
  ASSERT_TRUE(row.paged.has_value());
  const double slot = 2 * 32 * 2;  // one side, one layer: KV heads, channels, bytes
  EXPECT_EQ(row.paged->blocks, 2 * 7);
  EXPECT_EQ(row.paged->block_bytes, 16 * slot);
  EXPECT_EQ(row.paged->metadata_bytes, 0);
  EXPECT_EQ(row.paged->empty_bytes, 3 * 2 * 12 * slot);
  EXPECT_EQ(row.paged->repeated_bytes, 0);
  EXPECT_EQ(row.paged->total_bytes, row.bytes + row.paged->empty_bytes);
  EXPECT_EQ(budget(model, json::object(), 96, 16).paged->empty_bytes, 0);
}

TEST(Budget, BlocksRepeatTheScalesOfGroupsTheyShare) {
  CacheModel model = {"m", 1, 2, 2, 32, {}};
  json row = {
      {"keys",
       json::parse(R"({"codec": "minmax", "bits": 4, "axis": "channel", "group": 32, "scales": "fp16"})")}};
  const double channels = 64, scales = channels * 4, codes = channels / 2;  // bytes: a group, a token
  const double values = channels * 2;
  // Two blocks to a group: each carries its scales, and one copy in two is a repeat.
  PagedBytes half = *budget(model, row, 128, 16).paged;
  EXPECT_EQ(half.repeated_bytes, 4 * scales);
  EXPECT_EQ(half.total_bytes, 8 * (16 * codes + scales) + 128 * values);
  EXPECT_EQ(half.metadata_bytes, 8 * scales / 16);
  // Blocks of whole groups repeat nothing.
  EXPECT_EQ(budget(model, row, 128, 64).paged->repeated_bytes, 0);
  // 24 and 32 do not divide: groups 0 | 0 1 | 1 2 | 2 take two scales in half the blocks, so all have room
  // for two.
  PagedBytes uneven = *budget(model, row, 96, 24).paged;
  EXPECT_EQ(uneven.total_bytes, 4 * (24 * codes + 2 * scales) + 96 * values);
  EXPECT_EQ(uneven.repeated_bytes, 8 * scales - 3 * scales);
  EXPECT_EQ(uneven.empty_bytes, 0);
  // Scales per token move with their token.
  EXPECT_EQ(budget(model, both(R"({"codec": "minmax", "bits": 4, "axis": "token", "group": 32})"), 128, 16)
                .paged->repeated_bytes,
            0);
}

TEST(Budget, TableForAnyModel) {
  BudgetRequest request;
  request.context = 32768;
  request.batch = 2;
  request.block = 16;
  request.memory_bytes = parse_size("80GiB", "--memory");
  CacheModel model = kLlama;
  std::vector<RowBudget> rows = {
      row_budget(model, request,
                 both(R"({"codec": "minmax", "bits": 4, "axis": "token", "group": 32, "scales": "fp16"})"),
                 "4-bit K and V", "")};
  std::string text = budget_table(model, request, rows);
  EXPECT_TRUE(
      text.starts_with("llama: 40 layers × 40 KV heads of 128, 409,600 numbers per token; weights at 16 bits "
                       "24.21 GiB\n2 sequences of 32,768 tokens\n"))
      << text;
  EXPECT_NE(text.find("819,200 B     25.00 GiB      100.0%  16.000   50.00 GiB                 2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("256,000 B      7.81 GiB       31.2%   5.000   15.62 GiB                 7\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("in blocks of 16 tokens:\n"), std::string::npos);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) EXPECT_LE(display_width(line), kWidestLine) << line;
  request.memory_bytes = parse_size("24GB", "--memory");
  EXPECT_NE(budget_table(model, request, rows).find("none, the weights alone take more"), std::string::npos);
  model.weight_bytes = std::nullopt;
  EXPECT_NE(budget_table(model, request, rows).find("weights not counted"), std::string::npos);
}

TEST(Budget, RefusesByName) {
  EXPECT_EQ(refusal([] {
              budget({"m", 0, 1, 1, 64, {}}, json::object(), 10);
            }),
            "m: found 0 layers, expected from 1 to 10000");
  EXPECT_EQ(refusal([] {
              budget({"m", 1, 1, 1, 64, {}}, json::object(), 0);
            }),
            "--context: found 0 tokens, expected from 1 to 16777216");
  EXPECT_NE(refusal([] { budget({"m", 1, 1, 65536, 64, {}}, json::object(), 1 << 24); }), "");
  EXPECT_NE(refusal([] {
              budget({"m", 1, 1, 1, 64, {}}, {{"evict", {{"policy", "windwo"}}}}, 10);
            }).find("did you mean 'window'?"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              budget({"m", 1, 1, 1, 64, {}},
                     both(R"({"codec": "minmax", "bits": 4, "axis": "channel", "group": 9999})"), 90000, 1);
            }),
            "");
}

TEST(Budget, Sizes) {
  EXPECT_EQ(parse_size("24GiB", "-"), uint64_t{24} << 30);
  EXPECT_EQ(parse_size("24GB", "-"), 24'000'000'000u);
  EXPECT_EQ(parse_size("4096MiB", "-"), uint64_t{4} << 30);
  EXPECT_EQ(parse_size("1.5 KiB", "-"), 1536u);
  EXPECT_EQ(parse_size("1000", "-"), 1000u);
  for (const char* bad :
       {"", "GiB", "24 Gb", "-1GiB", "1..5GiB", "0", "1e3", "99999999999999TiB", "1GiB ", ".5GiB"}) {
    EXPECT_EQ(refusal([&] { parse_size(bad, "--memory"); }),
              fmt::format("--memory: found '{}', expected a size like 24GiB, 24GB or 4096MiB", bad));
  }
}

}  // namespace kvcost
