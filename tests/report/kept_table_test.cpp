#include "src/report/kept_table.h"

#include <gtest/gtest.h>

#include "src/report/layout.h"
#include "tests/support/sample_kept.h"

namespace kvcost {
namespace {

std::string printed(const KeptResult& result, const KeptTableOptions& options) {
  return kept_tables(std::span(&result, 1), options);
}

constexpr const char* kRowsAndMatrix =
    R"(                   tokens kept  attention kept   ties
position
  1 window, 128          128.0           37.5%      -
content
  2 h2o, 128             128.0           75.0%  0.03%
references
  3 oracle, 128 *        127.5          100.0%  0.00%
m, fp32; 1 window of 2,048 tokens, the queries that predict the last 1,024; means over heads, layers and
  queries
tokens kept: what a query may see, itself included; attention kept: of the full cache's weights, the share on
  these
ties: of the evictions by score, those that age decided between equals; -: no scores
* looks ahead: it uses later tokens, as no cache being filled could

Jaccard index of two rows' kept sets: tokens in both over tokens in either
                      1     2     3
  1 window, 128       1  0.50  0.25
  2 h2o, 128       0.50     1  0.75
  3 oracle, 128 *  0.25  0.75     1
)";

}  // namespace

TEST(KeptTable, LaysOutRowsAndPairs) {
  EXPECT_EQ(printed(sample_kept(), {}), kRowsAndMatrix);
  EXPECT_EQ(printed(sample_kept(), {.layers = true}), std::string(kRowsAndMatrix) + R"(
attention kept, by layer
                        0       1
  1 window, 128     50.0%   25.0%
  2 h2o, 128        75.0%   75.0%
  3 oracle, 128 *  100.0%  100.0%

Jaccard index of two rows' kept sets, by layer
              0     1
  1 and 2  0.25  0.75
  1 and 3  0.12  0.38
  2 and 3  0.50  1.00
)");
}

TEST(KeptTable, ManyRowsStayInsideTheLine) {
  KeptResult result = sample_kept();
  result.pairs.clear();
  for (size_t r = 0; r < 23; ++r) {
    KeptRow row = result.rows[r % 3];
    row.name = "a policy of very many words that goes on and on, row " + std::to_string(r);
    if (r < 3)
      result.rows[r] = row;
    else
      result.rows.push_back(row);
  }
  for (size_t a = 0; a < 23; ++a) {
    for (size_t b = a + 1; b < 23; ++b) {
      result.pairs.push_back({a, b, {0.01 * double(a) + 0.001 * double(b), {0.5, 0.5}}});
    }
  }
  const std::string text = printed(result, {.layers = true});
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(display_width(text.substr(begin, end - begin)), kWidestLine);
  }
  EXPECT_NE(text.find("     21    22    23\n"), std::string::npos) << text;
}

TEST(KeptTable, OtherFormats) {
  const std::string markdown = printed(sample_kept(), {.format = TableFormat::markdown});
  EXPECT_NE(markdown.find("| 2 h2o, 128 "), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("\\* looks ahead"), std::string::npos) << markdown;
  const std::string csv = printed(sample_kept(), {.format = TableFormat::csv});
  EXPECT_TRUE(
      csv.starts_with("result,row,other,measure,layer,value\n"
                      "eviction,\"window, 128\",,tokens_kept,,128\n"))
      << csv;
  EXPECT_NE(csv.find("\neviction,\"window, 128\",\"oracle, 128\",jaccard,1,0.375\n"), std::string::npos)
      << csv;
  const auto json = nlohmann::json::parse(printed(sample_kept(), {.format = TableFormat::json}));
  EXPECT_EQ(json[0], nlohmann::json(kept_result_to_json(sample_kept())));
  const KeptResult twice[] = {sample_kept(), sample_kept()};
  EXPECT_TRUE(kept_tables(twice, {}).starts_with("eviction\n  ")) << kept_tables(twice, {});
}

TEST(KeptTable, OfOneRowHasNoMatrix) {
  KeptResult result = sample_kept();
  result.rows.resize(1), result.pairs.clear();
  const std::string text = printed(result, {.layers = true});
  EXPECT_EQ(text.find("Jaccard"), std::string::npos) << text;
  EXPECT_NE(text.find("attention kept, by layer"), std::string::npos);
}

}  // namespace kvcost
