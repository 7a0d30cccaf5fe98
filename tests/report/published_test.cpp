#include "src/report/published.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/report/layout.h"
#include "tests/report/sample_result.h"

namespace kvcost {
namespace {

const std::filesystem::path kArticle =
    std::filesystem::path(KVCOST_SOURCE_DIR) / "data/published/eviction_and_quantization.json";

std::string refusal(const std::string& content) {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "kvcost_published.json";
  write_atomically(path, content);
  try {
    read_published(path);
  } catch (const InputError& error) {
    std::string what = error.what();
    size_t at = what.find(path.string());
    return at == 0 ? what.substr(path.string().size()) : "does not start with the path: " + what;
  }
  return "";
}

}  // namespace

TEST(Published, TheArticlesNumbersAreConsistent) {
  Published article = read_published(kArticle);
  ASSERT_EQ(article.rows.size(), 16u);
  for (const PublishedRow& row : article.rows) {
    EXPECT_NEAR(row.loss_bits - article.full_loss_bits, row.delta_bits, 0.00101) << row.name;
    EXPECT_GT(row.delta_se_bits, 0) << row.name;
  }
  ASSERT_EQ(article.key_statistics.size(), 2u);
  EXPECT_EQ(article.key_statistics[1].layer, 12);
  EXPECT_EQ(
      key_statistics_lines(article.key_statistics, article.key_channels),
      "layer  0 keys: largest bias 130.0; a token's 64 channels span 243.7 on average,  4.4 without the "
      "bias; a channel varies from token to token by 0.40\n"
      "layer 12 keys: largest bias   4.4; a token's 64 channels span  11.8 on average,  7.4 without the "
      "bias; a channel varies from token to token by 0.75\n");
}

TEST(Published, ComparesByNameAndListsTheRest) {
  Published article = read_published(kArticle);
  ResultFile result = sample_result();
  result.rows[1].loss_bits = 5.0;
  result.rows[1].delta_bits = 1.9;
  result.rows[2].name = "4 sink  tokens + the last 508";
  result.rows.push_back(sample_row("", "h2o", 3.1, 0.1, 0.01));
  result.key_statistics = key_statistics_to_json(article.key_statistics);
  std::string text = compare(article, result, TableFormat::text);
  EXPECT_NE(text.find("4.957  (+1.894 ± 0.031)     5.000  (+1.900 ± 0.031)  +0.043  +0.006\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("+0.000  +0.000\n"), std::string::npos);
  EXPECT_NE(text.find("measured only: h2o\n"), std::string::npos);
  EXPECT_NE(text.find("published only: the last 256 tokens; "), std::string::npos);
  EXPECT_NE(text.find("layer 0, measured"), std::string::npos);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) EXPECT_LE(display_width(line), kWidestLine) << line;

  auto json = nlohmann::json::parse(compare(article, result, TableFormat::json));
  EXPECT_EQ(json["rows"].size(), 4u);
  EXPECT_NEAR(json["rows"][0]["delta_difference_bits"].get<double>(), 0.006, 1e-9);
  EXPECT_EQ(json["only_published"].size(), 12u);
  std::string csv = compare(article, result, TableFormat::csv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 1 + 4 + 12 + 1);
}

TEST(Published, RefusesMalformedFilesInOneLine) {
  EXPECT_TRUE(refusal("{").starts_with(": ")) << refusal("{");
  EXPECT_EQ(refusal("{").find('\n'), std::string::npos);
  EXPECT_EQ(refusal("[]"), ": found a list, expected an object");
  EXPECT_EQ(refusal(R"({"source": "x"})"), ".losses: found nothing, expected an object");
  EXPECT_EQ(refusal(R"({"source": "x", "losses": {"model": "m", "windows": 0}})"),
            ".losses.windows: found 0, expected an integer from 1 to 1099511627776");
  EXPECT_EQ(refusal(R"({"source": "x", "losses": {"model": "m", "windows": 1, "length": 2, "scored": 1,
                       "full_loss_bits": 1.5, "rows": [{"section": "", "name": 3}]}})"),
            ".losses.rows[0].name: found 3, expected a string");
}

}  // namespace kvcost
