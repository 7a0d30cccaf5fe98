#include "src/harness/config/result_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/base/file.h"

namespace kvcost {
namespace {

ResultFile example() {
  ResultFile result;
  result.name = "tiny";
  result.config = {{"model", "m"}};
  result.model = "m";
  result.threads = 2;
  result.windows = 3, result.length = 64, result.scored = 32;
  result.capabilities = {"AVX2", "AVX512"};
  RowResult full;
  full.name = "full cache";
  full.config = nlohmann::json::object();
  full.loss_bits = 3.0634567890123456;
  full.delta_se_bits = std::nan("");
  RowResult row = full;
  row.name = "±";
  row.delta_bits = 1e-17, row.delta_low_bits = -0.25, row.delta_high_bits = 0.5;
  row.spread_bits = 0.125, row.spread_windows = 2, row.spread_repeats = 8;
  row.no_effect = row.looks_ahead = true;
  result.rows = {full, row};
  return result;
}

std::string error_of(const std::string& text) {
  try {
    parse_result(text, "r.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(ResultFile, ComesBackAsWritten) {
  auto path = std::filesystem::path(testing::TempDir()) / "kvcost_result_test.json";
  write_result(example(), path);
  ResultFile back = read_result(path);
  ASSERT_EQ(back.rows.size(), 2u);
  EXPECT_EQ(back.rows[0].loss_bits, 3.0634567890123456) << "numbers keep every bit";
  EXPECT_TRUE(std::isnan(back.rows[0].delta_se_bits));
  EXPECT_FALSE(back.rows[0].delta_low_bits.has_value());
  EXPECT_FALSE(back.rows[0].spread_bits.has_value());
  EXPECT_EQ(back.rows[1].name, "±");
  EXPECT_EQ(back.rows[1].delta_bits, 1e-17);
  EXPECT_EQ(*back.rows[1].delta_low_bits, -0.25);
  EXPECT_EQ(*back.rows[1].spread_bits, 0.125);
  EXPECT_EQ(back.rows[1].spread_repeats, 8);
  EXPECT_TRUE(back.rows[1].no_effect);
  EXPECT_EQ(back.capabilities, (std::vector<std::string>{"AVX2", "AVX512"}));
  auto again = path;
  again += ".again";
  write_result(back, again);
  EXPECT_EQ(read_text(path), read_text(again));
}

TEST(ResultFile, RefusesInOneLineNamingFileAndPlace) {
  auto path = std::filesystem::path(testing::TempDir()) / "kvcost_result_bad.json";
  write_result(example(), path);
  auto json = nlohmann::json::parse(read_text(path));
  auto changed = json;
  changed["rows"][1].erase("kl_bits");
  EXPECT_EQ(error_of(changed.dump()), "r.json: rows[1]: 'kl_bits' is missing");
  changed = json;
  changed["rows"][0]["loss_bits"] = "3";
  EXPECT_EQ(error_of(changed.dump()), "r.json: rows[0].loss_bits: found \"3\", expected a number or null");
  changed = json;
  changed["schema_version"] = 99;
  EXPECT_EQ(error_of(changed.dump()), "r.json.schema_version: found 99, expected 1");
  changed = json;
  changed["rows"] = nlohmann::json::array();
  EXPECT_NE(error_of(changed.dump()), "");
  changed = json;
  changed["rows"][0]["name"] = "two\nlines";
  EXPECT_NE(error_of(changed.dump()), "");
  std::string text = json.dump();
  for (size_t cut = 0; cut < text.size(); cut += 7) {
    std::string error = error_of(text.substr(0, cut));
    EXPECT_NE(error, "") << cut;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

}  // namespace kvcost
