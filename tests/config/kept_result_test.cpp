#include "src/harness/config/kept_result.h"

#include <gtest/gtest.h>

#include <functional>

#include "src/base/error.h"
#include "src/base/file.h"
#include "tests/support/sample_kept.h"

namespace kvcost {
namespace {

std::filesystem::path written(const KeptResult& result) {
  auto path = std::filesystem::path(testing::TempDir()) / "kvcost_kept_result_test.json";
  write_kept_result(result, path);
  return path;
}

std::string error_with(const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(read_text(written(sample_kept())));
  change(json);
  try {
    parse_kept_result(json.dump(), "k.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(KeptResult, ComesBackAsWritten) {
  const auto path = written(sample_kept());
  EXPECT_EQ(result_kind(path), "kept");
  const KeptResult back = read_kept_result(path);
  ASSERT_EQ(back.rows.size(), 3u);
  EXPECT_EQ(back.rows[1].ties, 1);
  EXPECT_EQ(back.rows[0].attention.layers, (std::vector<double>{0.5, 0.25}));
  EXPECT_TRUE(back.rows[2].looks_ahead);
  EXPECT_EQ(back.overlap(2, 1).layers[0], 0.5);
  const std::string before = read_text(path);
  EXPECT_EQ(read_text(written(back)), before);
}

TEST(KeptResult, FindsThePairInEitherOrder) {
  KeptResult result;
  result.rows.resize(7);
  for (size_t a = 0; a < 7; ++a) {
    for (size_t b = a + 1; b < 7; ++b) result.pairs.push_back({a, b, {double(10 * a + b), {}}});
  }
  for (size_t a = 0; a < 7; ++a) {
    for (size_t b = a + 1; b < 7; ++b) {
      EXPECT_EQ(result.overlap(a, b).mean, double(10 * a + b));
      EXPECT_EQ(result.overlap(b, a).mean, double(10 * a + b));
    }
  }
}

TEST(KeptResult, RefusesOtherFiles) {
  EXPECT_EQ(error_with([](auto&) {}), "");
  EXPECT_EQ(error_with([](auto& json) { json["kind"] = "recall"; }), "k.json: not a result of kvcost kept");
  EXPECT_EQ(error_with([](auto& json) { json["schema_version"] = 9; }),
            "k.json.schema_version: found 9, expected 1");
  EXPECT_EQ(error_with([](auto& json) { json["rows"][1]["attention_kept"]["layers"][0] = 1.5; }),
            "k.json: rows[1].attention_kept.layers[0]: found 1.5, expected a number from 0 to 1");
  EXPECT_EQ(error_with([](auto& json) { json["pairs"][1]["jaccard"]["layers"].erase(0); }),
            "k.json: pairs[1].jaccard.layers: found [0.375], expected 2 numbers");
  EXPECT_EQ(error_with([](auto& json) {
              json["pairs"][1]["rows"] = {0, 1};
            }),
            "k.json: pairs[1].rows: found [0,1], expected [0,2]");
  EXPECT_NE(error_with([](auto& json) { json["pairs"].erase(2); }).find("expected one for each two rows"),
            std::string::npos);
  EXPECT_EQ(error_with([](auto& json) { json["rows"][0]["ties"] = 3; }),
            "k.json: rows[0].ties: found 3, expected no more than evictions_by_score");
  EXPECT_NE(error_with([](auto& json) { json["rows"] = nlohmann::json::array(); }), "");
  EXPECT_NE(error_with([](auto& json) { json["layers"] = 1000000000; }), "");
}

}  // namespace kvcost
