// kvcost table and kvcost budget as programs: what they print and how they refuse.
#include "src/report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/base/file.h"
#include "src/report/budget.h"
#include "tests/cli/command.h"
#include "tests/report/sample_losses.h"

namespace kvcost {
namespace {

class TableCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("kvcost_cli_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    write_result(sample_result(), path("good.json"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static Outcome kvcost(const std::string& arguments) {
    return run_command(fmt::format("{} {} 2>&1", KVCOST_BINARY, arguments));
  }

  /// Ends with 2 and one line that has `part` in it.
  static void expect_refusal(const Outcome& outcome, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }

  std::filesystem::path folder_;
};

}  // namespace

TEST_F(TableCommand, PrintsWhatTheLibraryFormats) {
  ResultFile result = read_result(path("good.json"));
  Outcome outcome = kvcost("table " + path("good.json"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, table(std::span(&result, 1), {}));
  outcome = kvcost("table " + path("good.json") + " --format csv");
  EXPECT_EQ(outcome.output, table(std::span(&result, 1), {.format = TableFormat::csv}));
  outcome = kvcost("table " + path("good.json") +
                   " --published " KVCOST_SOURCE_DIR "/data/published/eviction_and_quantization.json");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("published only: the last 256 tokens"), std::string::npos) << outcome.output;
}

TEST_F(TableCommand, RefusesMalformedResultsInOneLine) {
  std::string good = read_text(path("good.json"));
  auto table_of = [&](const std::string& content) {
    write_atomically(path("bad.json"), content);
    return kvcost("table " + path("bad.json"));
  };
  expect_refusal(table_of(""), "bad.json");
  expect_refusal(table_of("{"), "bad.json");
  expect_refusal(table_of("[1, 2]"), "bad.json");
  expect_refusal(table_of(good.substr(0, good.size() / 2)), "bad.json");
  expect_refusal(table_of(std::string(100'000, '[')), "bad.json");
  expect_refusal(table_of(std::string("\x00\xff\x1b[2J", 6)), "bad.json");
  auto changed = [&](auto&& change) {
    nlohmann::json json = nlohmann::json::parse(good);
    change(json);
    return table_of(json.dump());
  };
  expect_refusal(changed([](auto& json) { json["rows"][1]["loss_bits"] = "low"; }), "rows[1].loss_bits");
  expect_refusal(changed([](auto& json) { json["rows"][1].erase("name"); }), "name");
  expect_refusal(changed([](auto& json) { json["rows"][1]["name"] = "a\nb"; }), "rows[1].name");
  expect_refusal(changed([](auto& json) { json["rows"] = 3; }), "rows");
  expect_refusal(changed([](auto& json) { json["windows"] = -1; }), "windows");
  expect_refusal(kvcost("table " + path("absent.json")), "absent.json");
  expect_refusal(kvcost("table " + path("good.json") + " --format pdf"), "pdf");
  expect_refusal(kvcost("table " + path("good.json") + " --published " + path("good.json")), "good.json");
  expect_refusal(kvcost("table " + path("good.json") + " " + path("good.json") + " --published x"),
                 "--published");
}

TEST_F(TableCommand, LossByPositionNeedsTheLosses) {
  expect_refusal(kvcost("table " + path("good.json") + " --by-position 4"), "good.safetensors: cannot open");
  expect_refusal(kvcost("table " + path("good.json") + " --by-position -1"), "--by-position: found -1");
  expect_refusal(kvcost("table " + path("good.json") + " --by-position 4 --beside"), "--beside");
  ResultFile result = read_result(path("good.json"));
  std::vector<std::optional<Losses>> losses = {sample_losses(result)};
  write_sample_losses(*losses[0], result, path("good.safetensors"));
  EXPECT_EQ(kvcost("table " + path("good.json") + " --by-position 4").output,
            table(std::span(&result, 1), {.position_blocks = 4}, losses));
}

TEST_F(TableCommand, TheGapClosedHasAnIntervalIfTheLossesAreThere) {
  ResultFile result = sample_result();
  const char* policies[] = {"random", "h2o", "oracle"};
  for (size_t i = 0; i < 3; ++i) {
    result.rows[i + 1].config = {{"evict", {{"policy", policies[i]}, {"capacity", 512}}}};
  }
  result.rows[3].delta_bits = 0.1, result.rows[3].loss_bits = 3.163;
  write_result(result, path("good.json"));
  std::string arguments = "table " + path("good.json") + " --format json";
  auto row = nlohmann::json::parse(kvcost(arguments).output)[0]["rows"][2];
  EXPECT_NEAR(row["gap_closed"].get<double>(), 1.722 / 1.794, 1e-9);
  EXPECT_TRUE(row["gap_closed_low"].is_null());
  write_sample_losses(sample_losses(result), result, path("good.safetensors"));
  row = nlohmann::json::parse(kvcost(arguments).output)[0]["rows"][2];
  EXPECT_LT(row["gap_closed_low"].get<double>(), row["gap_closed"].get<double>());
}

TEST_F(TableCommand, Budget) {
  EXPECT_EQ(kvcost("budget").output, eviction_article_budget() + "\n" + bytes_per_token_article_budget());
  Outcome outcome = kvcost("budget --model 40,40,128 --block 16 --memory 24GiB --weights 1GiB");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("25.00 GiB"), std::string::npos) << outcome.output;
  outcome =
      kvcost(R"(budget --model 40,40,128 --row '{"name": "{keys.bits} bits", "keys": {"codec": "minmax",)"
             R"( "bits": [4, 8], "axis": "token", "group": 128, "scales": "fp16"}}')");
  EXPECT_NE(outcome.output.find("\n4 bits "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\n8 bits "), std::string::npos) << outcome.output;
  outcome = kvcost("budget --model 40,40,128 --config " KVCOST_SOURCE_DIR "/configs/quick.json");
  EXPECT_NE(outcome.output.find("\n4 sink tokens + the last 508 "), std::string::npos) << outcome.output;

  expect_refusal(kvcost("budget --memory 24GiB"), "--model: found nothing");
  expect_refusal(kvcost("budget --model 40,40,128 --memory 24gigs"), "found '24gigs'");
  expect_refusal(kvcost("budget --model 40,40,0"), "found 0 channels");
  expect_refusal(kvcost("budget --model no-such-model"), "no-such-model");
  expect_refusal(kvcost("budget --model 40,40,128 --context 0"), "--context");
  expect_refusal(kvcost("budget --model 40,40,128 --block -1"), "--block");
  expect_refusal(kvcost("budget --model 40,40,128 --row '{'"), "--row");
  expect_refusal(kvcost(R"(budget --model 40,40,128 --row '{"evict": {"policy": "windwo"}}')"), "'window'");
  expect_refusal(kvcost(R"(budget --model 40,40,128 --row '{"evikt": {}}')"), "evikt");
}

}  // namespace kvcost
