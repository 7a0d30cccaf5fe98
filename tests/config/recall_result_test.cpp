#include "src/harness/config/recall_result.h"

#include <gtest/gtest.h>

#include <functional>

#include "src/base/error.h"
#include "src/base/file.h"
#include "tests/support/sample_recall.h"

namespace kvcost {
namespace {

std::filesystem::path written() {
  auto path = std::filesystem::path(testing::TempDir()) / "kvcost_recall_result_test.json";
  write_recall_result(sample_recall(), path);
  return path;
}

std::string error_with(const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(read_text(written()));
  change(json);
  try {
    parse_recall_result(json.dump(), "r.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(RecallResult, ComesBackAsWritten) {
  const auto path = written();
  const RecallResult back = read_recall_result(path);
  EXPECT_EQ(back.cases, 64);
  EXPECT_EQ(back.depths, (std::vector<double>{0.1, 0.9}));
  ASSERT_EQ(back.rows.size(), 3u);
  EXPECT_EQ(back.rows[0].cells[0].follow_up.loss_bits, sample_recall().rows[0].cells[0].follow_up.loss_bits);
  ASSERT_EQ(back.rows[1].cells.size(), 3u);
  EXPECT_EQ(back.rows[1].cells[1].decided, "first");
  EXPECT_FALSE(back.rows[1].cells[2].first.has_value());
  EXPECT_EQ(*back.rows[1].cells[1].follow_up.delta_bits.high, 8.5);
  EXPECT_EQ(back.rows[1].follow_up_price_bits->mean, 6.5);
  EXPECT_FALSE(back.rows[2].follow_up_price_bits.has_value());
  const std::string before = read_text(path);
  write_recall_result(back, path);
  EXPECT_EQ(read_text(path), before);
}

TEST(RecallResult, RefusesOtherFiles) {
  EXPECT_EQ(error_with([](auto&) {}), "");
  EXPECT_EQ(error_with([](auto& json) { json.erase("kind"); }), "r.json: not a result of kvcost recall");
  EXPECT_EQ(error_with([](auto& json) { json["schema_version"] = 2; }),
            "r.json.schema_version: found 2, expected 1");
  EXPECT_EQ(error_with([](auto& json) { json["rows"][1]["cells"][0]["decided"] = "later"; }),
            "r.json: rows[1].cells[0].decided: found \"later\", expected before, first, both or nothing");
  EXPECT_EQ(error_with([](auto& json) {
              json["rows"][1]["cells"][0]["follow_up_by_depth"] = nlohmann::json::array();
            }),
            "r.json: rows[1].cells[0].follow_up_by_depth: found [], expected 2 entries, as \"depths\" has");
  EXPECT_EQ(error_with([](auto& json) { json["rows"][1]["cells"][0]["follow_up"]["recalled"] = "all"; }),
            "r.json: rows[1].cells[0].follow_up.recalled: found \"all\", expected a number or null");
  EXPECT_NE(error_with([](auto& json) { json["rows"] = nlohmann::json::array(); }), "");
}

}  // namespace kvcost
