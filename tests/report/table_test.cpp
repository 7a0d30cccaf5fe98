#include "src/report/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "src/report/layout.h"
#include "tests/report/sample_losses.h"

namespace kvcost {
namespace {

std::string text_of(const ResultFile& result, TableOptions options = {}) {
  return table(std::span(&result, 1), options);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST(Table, ReadsLikeTheArticle) {
  EXPECT_EQ(
      text_of(sample_result()),
      "full cache: 3.063 bits per token, 8 windows\n"
      "                                                    loss      (delta ± se)    95% interval  B/token  "
      "bits\n"
      "eviction: keep\n"
      "  the last 512 tokens                              4.957  (+1.894 ± 0.031)  +1.844..+1.944    5,760  "
      "4.50\n"
      "  4 sink tokens + the last 508                     3.235  (+0.172 ± 0.011)  +0.122..+0.222    5,760  "
      "4.50\n"
      "quantization of the cache (keys after RoPE):\n"
      "  2-bit, per token                                11.506  (+8.443 ± 0.059)  +8.393..+8.493    5,760  "
      "4.50\n"
      "  2-bit, keys per channel, last 128 exact (KIVI)   3.388  (+0.325 ± 0.013)  +0.275..+0.375    5,760  "
      "4.50\n"
      "tiny-1m, fp32; windows of 2,048 tokens, the last 1,024 scored; full cache 23,040 bytes per token\n"
      "(delta ± standard error, tokens taken as independent); 95% interval: over windows\n"
      "B/token: stored bytes per token of context; bits: per stored number, metadata included\n");
}

TEST(Table, OneWindowHasNoInterval) {
  ResultFile result = sample_result();
  result.windows = 1;
  for (RowResult& row : result.rows) row.delta_low_bits = row.delta_high_bits = std::nullopt;
  std::string text = text_of(result);
  EXPECT_EQ(text.find(".."), std::string::npos);
  EXPECT_NE(text.find("8 windows"), 0u);
  EXPECT_NE(text.find("bits per token, 1 window\n"), std::string::npos);
  EXPECT_NE(text.find("(+1.894 ± 0.031)             -"), std::string::npos);
}

TEST(Table, MarksWhatAReaderMustKnow) {
  ResultFile result = sample_result();
  result.rows[1].no_effect = true;
  result.rows[4].looks_ahead = true;
  result.rows[3].spread_bits = 0.28;
  result.rows[3].spread_windows = 1;
  result.rows[3].spread_repeats = 5;
  result.capabilities = {"AVX2", "AVX512"};
  std::string text = text_of(result);
  EXPECT_NE(text.find("(no effect)"), std::string::npos);
  EXPECT_NE(text.find("(+0.325 ± 0.013)* "), std::string::npos);
  EXPECT_NE(text.find("* looks ahead"), std::string::npos);
  EXPECT_NE(text.find("0.280\n"), std::string::npos);
  EXPECT_NE(text.find("(5 repeats over 1 window)"), std::string::npos);
  EXPECT_NE(text.find("(AVX2, AVX512)"), std::string::npos);
  for (TableFormat format : {TableFormat::markdown, TableFormat::csv, TableFormat::json}) {
    std::string other = text_of(result, {.format = format});
    bool fields = format != TableFormat::markdown;
    EXPECT_NE(other.find(fields ? "no_effect" : "(no effect)"), std::string::npos);
    EXPECT_NE(other.find(fields ? "looks_ahead" : "looks ahead"), std::string::npos);
  }
}

TEST(Table, NoLineIsWiderThanPromised) {
  ResultFile result = sample_result();
  for (RowResult& row : result.rows) row.spread_bits = 0.1, row.looks_ahead = true;
  result.rows[2].name =
      std::string(60, 'a') + " " + std::string(60, 'b') + " 窓口の幅を測る行 keeps its columns";
  result.rows[2].name.replace(20, 1, " ").replace(90, 1, " ");
  result.rows[1].section = "a heading " + std::string(150, 'x').replace(70, 1, " ") + " that is long";
  for (const std::string& line : lines_of(text_of(result, {.measures = true}))) {
    EXPECT_LE(display_width(line), kWidestLine) << line;
  }
}

TEST(Table, SeveralResultsComeOneAfterAnotherOrBeside) {
  std::vector<ResultFile> results = {sample_result(), sample_result()};
  results[1].name = "other";
  results[1].rows.erase(results[1].rows.begin() + 2);
  results[1].rows.insert(results[1].rows.begin() + 2, sample_row("eviction: keep", "h2o", 3.2, 0.137, 0.01));
  std::string after = table(results, {});
  EXPECT_EQ(count_of(after, "full cache: 3.063"), 2u);
  EXPECT_TRUE(after.starts_with("sample\n"));
  EXPECT_NE(after.find("\n\nother\n"), std::string::npos);
  std::vector<std::string> beside = lines_of(table(results, {.beside = true}));
  ASSERT_EQ(beside.size(), 9u);
  EXPECT_EQ(
      beside[4],
      "  4 sink tokens + the last 508                     3.235  (+0.172 ± 0.011)       -                 -");
  EXPECT_EQ(
      beside[5],
      "  h2o                                                  -                 -   3.200  (+0.137 ± 0.010)");
  EXPECT_EQ(beside[6], "quantization of the cache (keys after RoPE):") << "a new row joins its own section";
}

TEST(Table, CsvAndJsonHoldEveryField) {
  ResultFile result = sample_result();
  result.rows[1].name = "a, \"b\"";
  result.rows[1].delta_low_bits = std::nullopt;
  std::string csv = text_of(result, {.format = TableFormat::csv});
  std::vector<std::string> lines = lines_of(csv);
  ASSERT_EQ(lines.size(), 6u);
  std::string whole = text_of(result, {.format = TableFormat::json});
  auto json = nlohmann::json::parse(whole);
  ASSERT_EQ(json.size(), 1u);
  for (const auto& [key, value] : json[0].items()) {
    if (key == "rows") continue;
    EXPECT_NE(lines[0].find("result_" + key), std::string::npos) << key;
  }
  for (const auto& [key, value] : json[0]["rows"][0].items()) {
    std::string column = key == "config" ? "row_config" : key;
    EXPECT_NE(("," + lines[0] + ",").find("," + column + ","), std::string::npos) << key;
  }
  EXPECT_TRUE(lines[2].starts_with("\"a, \"\"b\"\"\",eviction: keep,4.957,1.894,0.031,,1.944,")) << lines[2];
  EXPECT_EQ(json[0]["rows"][1]["delta_low_bits"], nullptr);
  EXPECT_EQ(json[0]["rows"][1]["kl_bits"], 0.125);
  EXPECT_EQ(json[0]["text_sha256"], "33");
}

TEST(Table, MeasuresAreThereWhenAskedFor) {
  std::string text = text_of(sample_result(), {.measures = true});
  EXPECT_NE(text.find("0.1250      75.00%         -0.0625        512.0     8.25\n"), std::string::npos)
      << text;
  EXPECT_EQ(text_of(sample_result()).find("75.00%"), std::string::npos);
}

TEST(Table, LossByPosition) {
  ResultFile result = sample_result();
  std::optional<Losses> losses = sample_losses(result);
  auto printed = [&](TableOptions options) {
    return table(std::span(&result, 1), options, std::span(&losses, 1));
  };
  std::string text = printed({.position_blocks = 4});
  EXPECT_NE(text.find("from position                                      1,024   1,280   1,536   1,792\n"
                      "full cache                                         2.688   2.938   3.188   3.438\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("the last 512 tokens                             +1.894  +1.894"), std::string::npos);
  EXPECT_EQ(count_of(printed({.position_blocks = 20}), "from position"), 3u) << "8, 8 and 4 blocks";
  for (const std::string& line : lines_of(printed({.position_blocks = 20}))) {
    EXPECT_LE(display_width(line), kWidestLine) << line;
  }
  auto row =
      nlohmann::json::parse(printed({.format = TableFormat::json, .position_blocks = 2}))[0]["rows"][1];
  EXPECT_EQ(row["block_first_positions"], nlohmann::json({1024, 1536}));
  EXPECT_NEAR(row["block_loss_bits"][1].get<double>(), 4.957 + 0.25, 1e-9);
  EXPECT_NE(printed({.format = TableFormat::csv, .position_blocks = 2}).find("\"[1024,1536]\""),
            std::string::npos);
}

}  // namespace kvcost
