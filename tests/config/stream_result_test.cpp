#include "src/harness/config/stream_result.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/config/recall_result.h"
#include "src/harness/config/result_file.h"
#include "tests/support/sample_recall.h"
#include "tests/support/sample_stream.h"

namespace kvcost {
namespace {

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / ("kvcost_stream_result_" + name);
}

std::string error_with(const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(stream_result_json(sample_stream()).dump());
  change(json);
  try {
    parse_stream_result(json.dump(), "s.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(StreamResult, ComesBackAsWritten) {
  const auto path = temporary("good.json");
  StreamResult made = sample_stream();
  made.bos = 1;
  made.rows[0].block_sd_bits[1] = std::nan("");
  write_stream_result(made, path);
  const StreamResult back = read_stream_result(path);
  EXPECT_EQ(back.model, "m");
  EXPECT_EQ(back.capabilities, made.capabilities);
  EXPECT_EQ(back.bos, 1);
  EXPECT_EQ(back.trained_tokens, 2000);
  ASSERT_EQ(back.rows.size(), 4u);
  EXPECT_EQ(back.rows[0].tokens, 1500);
  EXPECT_FALSE(back.rows[0].against_full.has_value());
  EXPECT_FALSE(back.rows[0].past_trained.has_value());
  EXPECT_TRUE(std::isnan(back.rows[0].block_sd_bits[1]));
  EXPECT_EQ(back.rows[1].block_loss_bits, (std::vector<double>{5, 6.5, 8, 9.5}));
  EXPECT_EQ(back.rows[1].past_trained->mean, 11);
  EXPECT_EQ(*back.rows[2].against_full->low, 0);
  EXPECT_TRUE(back.rows[3].renumbered);
  EXPECT_FALSE(back.rows[3].against_full->low.has_value());
  EXPECT_EQ(back.rows[3].renumbering_of, "sinks, 4");
  EXPECT_EQ(back.rows[3].renumbering->standard_error, 0.03125);
  EXPECT_EQ(back.rows[3].cache_bytes, 3 << 20);
  EXPECT_EQ(back.scored(back.rows[0], 0), 999) << "nothing predicts the first token";
  EXPECT_EQ(back.scored(back.rows[0], 1), 500);
  EXPECT_EQ(back.scored(back.rows[1], 3), 1000);
  EXPECT_EQ(stream_result_json(back).dump(), stream_result_json(made).dump());
}

TEST(StreamResult, RefusesOtherFiles) {
  using json = nlohmann::json;
  EXPECT_EQ(error_with([](json&) {}), "");
  EXPECT_EQ(error_with([](json& j) { j.erase("kind"); }), "s.json: not a result of kvcost stream");
  EXPECT_EQ(error_with([](json& j) { j["schema_version"] = 2; }),
            "s.json.schema_version: found 2, expected 1");
  EXPECT_EQ(error_with([](json& j) { j["block_tokens"] = 0; }),
            "s.json.block_tokens: found 0, expected an integer of at least 2");
  EXPECT_EQ(error_with([](json& j) { j["tokens"] = int64_t{1} << 50; }),
            "s.json.tokens: found 1125899906842624, expected at most 1099511627776");
  EXPECT_EQ(error_with([](json& j) { j["rows"][1]["tokens"] = 4001; }),
            "s.json: rows[1].tokens: found 4001, expected at most 4000");
  EXPECT_EQ(error_with([](json& j) { j["rows"][1]["tokens"] = 3000; }),
            "s.json: rows[1].block_loss_bits: found [5.0,6.5,8.0,9.5], expected 3 entries, one a block");
  EXPECT_EQ(error_with([](json& j) { j["rows"][0]["block_sd_bits"][1] = "2"; }),
            "s.json: rows[0].block_sd_bits: found [2.0,\"2\"], expected a list of numbers or nulls");
  EXPECT_EQ(error_with([](json& j) { j["rows"][2]["against_full"].erase("se_bits"); }),
            "s.json: rows[2].against_full: 'se_bits' is missing");
  EXPECT_EQ(error_with([](json& j) { j["rows"][2]["past_trained"] = 3; }),
            "s.json: rows[2].past_trained: found 3, expected an object");
  EXPECT_EQ(error_with([](json& j) { j["threads"] = 0; }),
            "s.json.threads: found 0, expected an integer of at least 1");
  EXPECT_NE(error_with([](json& j) { j["rows"] = json::array(); }), "");
}

TEST(StreamResult, EveryCutIsRefusedInOneLine) {
  const std::string text = stream_result_json(sample_stream()).dump();
  for (size_t cut = 0; cut < text.size(); cut += 7) {
    try {
      parse_stream_result(text.substr(0, cut), "s.json");
      FAIL() << cut;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(ResultKind, IsWhatMeasuredIt) {
  const auto stream = temporary("stream.json"), recall = temporary("recall.json"),
             run = temporary("run.json");
  write_stream_result(sample_stream(), stream);
  write_recall_result(sample_recall(), recall);
  write_result(ResultFile{}, run);
  EXPECT_EQ(result_kind(stream), "stream");
  EXPECT_EQ(result_kind(recall), "recall");
  EXPECT_EQ(result_kind(run), "windows");
  write_atomically(run, "[]");
  EXPECT_THROW(result_kind(run), InputError);
}

}  // namespace kvcost
