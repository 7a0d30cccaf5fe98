#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/file.h"
#include "src/harness/config/kept_result.h"
#include "tests/support/command_test.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

class KeptRun : public CommandTest {
 protected:
  KeptRun() {
    std::ofstream(folder_ / "text.txt") << tiny_text(2000);
    std::ofstream(folder_ / "c.json")
        << R"({"model": "./tiny", "text": "text.txt", "windows": {"count": 3, "length": 64, "scored": 24}, "rows": [
    {"name": "{evict.policy} {evict.capacity}", "section": "eviction",
     "evict": {"policy": ["window", "h2o", "random", "oracle"], "capacity": [12, 100]}},
    {"name": "4-bit", "keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": 8}}]})";
  }
};

}  // namespace

TEST_F(KeptRun, ComparesTheRowsThatEvict) {
  const std::string table = out_of({"kept", "c.json"});
  EXPECT_NE(err_.find("c: 8 rows, 1 windows, ./tiny\n"), std::string::npos) << err_;
  EXPECT_NE(err_.find("[8/8] window 1, oracle 100: "), std::string::npos) << err_;
  EXPECT_EQ(err_.find("bits"), std::string::npos) << err_;
  const KeptResult made = read_kept_result(folder_ / "results/c-kept.json");
  ASSERT_EQ(made.rows.size(), 8u) << "without the one that only rounds";
  EXPECT_EQ(made.windows, 1);
  EXPECT_EQ(made.layers, 2);
  EXPECT_EQ(made.config["windows"]["count"], 1);
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(made.rows[r].tokens_kept < 13, r % 2 == 0) << r;
    EXPECT_EQ(made.rows[r].attention.mean > 0.9999, r % 2 == 1) << r;
  }
  EXPECT_EQ(made.overlap(1, 3).mean, 1) << "all of it";
  EXPECT_GT(made.overlap(0, 2).mean, 0.1);
  EXPECT_LT(made.overlap(0, 2).mean, 1);
  EXPECT_GT(made.rows[6].attention.mean, made.rows[4].attention.mean) << "the oracle keeps more than random";
  EXPECT_EQ(out_of({"table", "results/c-kept.json"}), table);
  EXPECT_EQ(out_of({"table", "results/c-kept.json", "--layers"}), out_of({"kept", "c.json", "--layers"}));
  EXPECT_EQ(out_of({"kept", "c.json", "--format", "csv"}),
            out_of({"table", "results/c-kept.json", "--format", "csv"}));
}

TEST_F(KeptRun, MoreWindowsAndFewerRows) {
  out_of({"kept", "c.json", "--windows", "3", "--rows", "12$", "--out", "elsewhere"});
  const KeptResult all = read_kept_result(folder_ / "elsewhere/c-kept.json");
  ASSERT_EQ(all.rows.size(), 4u);
  EXPECT_EQ(all.windows, 3);
  // One eviction after each of the queries 11 to 62, in two layers of two heads.
  EXPECT_EQ(all.rows[1].evictions, 3 * 2 * 2 * 52);
  EXPECT_EQ(all.rows[0].evictions, 0);
}

TEST_F(KeptRun, RefusesInOneLine) {
  EXPECT_EQ(refusal({"kept", "c.json", "--rows", "4-bit"}),
            "c: found 0 rows that evict, expected from 1 to 200");
  EXPECT_EQ(refusal({"kept", "c.json", "--format", "pdf"}),
            "--format: unknown 'pdf', expected one of text, markdown, csv, json");
  EXPECT_EQ(refusal({"kept", "c.json", "--set", "rows[0].evict.capacity=0"}),
            "c.json: rows[0].evict.capacity: found 0, expected an integer of at least 1 or a list");
  EXPECT_NE(refusal({"kept", "c.json", "--windows", "900"}).find("900"), std::string::npos);
  std::ofstream(folder_ / "r.json") << R"({"model": "./tiny", "text": "text.txt", "rows": [],
             "recall": {"cases": 1, "depths": [0.2, 0.8], "context_tokens": 250}})";
  EXPECT_EQ(refusal({"kept", "r.json"}), "r: found \"recall\", expected \"windows\"");
  out_of({"kept", "c.json", "--rows", "12$"});
  out_of({"run", "c.json", "--rows", "window"});
  EXPECT_EQ(refusal({"table", "results/c-kept.json", "--measures"}),
            "--measures: found with results/c-kept.json, a result of kvcost kept, whose table has none");
  EXPECT_EQ(refusal({"table", "results/c-kept.json", "results/c.json"}),
            "results/c.json: not a result of kvcost kept");
  EXPECT_EQ(refusal({"table", "results/c.json", "--layers"}),
            "--layers: found other results, expected some of kvcost kept");
}

}  // namespace kvcost
