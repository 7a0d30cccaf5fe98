#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "src/base/file.h"
#include "src/harness/config/recall_result.h"
#include "tests/support/command_test.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows = R"(
    {"name": "window, {evict.capacity}", "evict": {"policy": "window", "capacity": [60, 1000]}},
    {"name": "snapkv, 60", "evict": {"policy": "snapkv", "capacity": 60}},
    {"name": "4-bit", "keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": 8}})";
constexpr size_t kUnits = 1 + 3 + 3 + 3 + 1;  ///< of one case at one depth

class RecallRun : public CommandTest {
 protected:
  RecallRun() {
    std::string text = tiny_text(4000);
    for (size_t at = 30; at + 1 < text.size(); at += 30) text[at] = '.', text[at + 1] = ' ';
    std::ofstream(folder_ / "text.txt") << text;
    write_config(3);
  }

  void write_config(int cases) {
    std::ofstream(folder_ / "c.json")
        << R"({"model": "./tiny", "text": "text.txt", "recall": {"cases": )" << cases
        << R"(, "depths": [0.2, 0.8], "context_tokens": 250, "seed": 3}, "rows": [)" << kRows << "]}";
  }
  std::string table_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"recall", "c.json"});
    return out_of(arguments);
  }
};

}  // namespace

TEST_F(RecallRun, MeasuresThenReusesWithTheSameTable) {
  const std::string first = table_of({});
  EXPECT_EQ(units("runs"), kUnits * 6);
  EXPECT_EQ(count_in_err("measured before"), 0u);
  EXPECT_EQ(count_in_err("] case 6, snapkv, 60 [first]: "), 1u);
  const std::string json = content_of(folder_ / "results/c.json");
  EXPECT_EQ(table_of({}), first);
  EXPECT_EQ(count_in_err("measured before"), kUnits * 6);
  EXPECT_EQ(content_of(folder_ / "results/c.json"), json);

  const RecallResult made = read_recall_result(folder_ / "results/c.json");
  ASSERT_EQ(made.rows.size(), 5u);
  EXPECT_EQ(made.cases, 3);
  EXPECT_EQ(made.rows[0].cells.size(), 1u);
  EXPECT_EQ(made.rows[0].cells[0].follow_up.delta_bits.mean, 0);
  EXPECT_FALSE(made.rows[0].cells[0].no_effect);
  ASSERT_EQ(made.rows[1].cells.size(), 3u);
  for (const RecallCell& cell : made.rows[1].cells) {
    EXPECT_EQ(cell.tokens_kept, 60);
    EXPECT_NE(cell.follow_up.delta_bits.mean, 0);
    EXPECT_TRUE(cell.follow_up.delta_bits.low.has_value());
  }
  EXPECT_TRUE(made.rows[2].cells[0].no_effect) << "a window of 1000 is the full cache";
  EXPECT_EQ(made.rows[2].cells[0].follow_up.delta_bits.mean, 0);
  EXPECT_EQ(made.rows[3].cells[1].tokens_kept, 60);
  EXPECT_EQ(made.rows[4].cells.size(), 1u) << "without a policy nothing is decided";

  Program again(folder_, {"recall", "--table", "results/c.json"});
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(again.out(), first);
}

TEST_F(RecallRun, GoesOnAfterKillDashNineWithAByteEqualTable) {
  write_config(40);
  const std::string expected = table_of({"--store", "other"});
  Program killed(folder_, {"recall", "c.json"});
  for (int i = 0; i < 20000 && units("runs") < 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  killed.kill(SIGKILL);
  EXPECT_EQ(killed.wait(), 128 + SIGKILL) << "it finished before it could be killed";
  const size_t before = units("runs");
  EXPECT_GE(before, 5u);
  EXPECT_LT(before, kUnits * 80);
  EXPECT_EQ(table_of({}), expected);
  EXPECT_EQ(count_in_err("measured before"), before);
}

TEST_F(RecallRun, ARowAddedLaterAndShards) {
  table_of({"--rows", "^snap"});
  EXPECT_EQ(units("runs"), 4u * 6u);
  const std::string all = table_of({});
  EXPECT_EQ(count_in_err("measured before"), 4u * 6u);
  Program first(folder_, {"recall", "c.json", "--shard", "1/2", "--store", "shared"});
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_NE(first.out().find("shard 1/2 is done"), std::string::npos);
  EXPECT_EQ(table_of({"--shard", "2/2", "--store", "shared"}), all);
}

TEST_F(RecallRun, RefusesInOneLine) {
  EXPECT_EQ(refusal({"recall"}),
            "recall: expected a CONFIG to measure or --table FILE to print, one of the two");
  EXPECT_EQ(refusal({"run", "c.json"}), "c: found \"recall\", expected \"windows\": kvcost recall runs it");
  std::ofstream(folder_ / "w.json")
      << R"({"model": "./tiny", "text": "text.txt", "windows": {"count": 1, "length": 8, "scored": 4}, "rows": []})";
  EXPECT_EQ(refusal({"recall", "w.json"}), "w: recall: found nothing, expected an object");
  EXPECT_EQ(refusal({"recall", "c.json", "--set", "recall.context_tokens=5000"}),
            "recall.context_tokens: found 5000, expected less: no text has so many in whole sentences");
  EXPECT_EQ(refusal({"recall", "c.json", "--set", "rows[1].evict.capacity=20"}),
            "rows[1].evict.observe: found nothing, expected an integer from 1 to 20 (32 if not given)");
  std::ofstream(folder_ / "ids.json") << "[1, 2, 3]";
  EXPECT_EQ(refusal({"recall", "c.json", "--set", "text=ids.json"}),
            "ids.json: found token ids, expected text: facts are placed in it");
  EXPECT_EQ(refusal({"recall", "--table", "c.json"}), "c.json: not a result of kvcost recall");
  EXPECT_EQ(refusal({"recall", "c.json", "--cases", "0"}),
            "c.json: recall.cases: found 0, expected an integer from 1 to 100000");
}

TEST_F(RecallRun, ValidateKnowsIt) {
  Program program(folder_, {"validate", "c.json"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(program.out(),
            "c.json: good: ./tiny, 4 rows and the full cache, recall in 3 cases at 2 depths of 250 tokens\n");
}

}  // namespace kvcost
