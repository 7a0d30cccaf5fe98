#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "src/base/file.h"
#include "src/harness/config/result_file.h"
#include "src/harness/losses.h"
#include "src/harness/statistics.h"
#include "src/model/formats/safetensors.h"
#include "tests/support/command_test.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows = R"(
    {"name": "w{evict.capacity}", "section": "eviction", "evict": {"policy": "window", "capacity": [4, 8, 40, 100]}},
    {"name": "4-bit", "keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": 8},
     "values": {"codec": "minmax", "bits": 4, "axis": "token", "group": 8}},
    {"name": "4-bit, last 44 exact", "keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": 8},
     "exact_last": 44})";

class Run : public CommandTest {
 protected:
  Run() {
    std::ofstream(folder_ / "text.txt") << tiny_text(8000);
    write_config(4);
  }

  void write_config(int windows, const std::string& more = "") {
    std::ofstream(folder_ / "c.json")
        << R"({"model": "./tiny", "text": "text.txt", "windows": {"count": )" << windows
        << R"(, "length": 64, "scored": 24}, )" << more << R"("rows": [)" << kRows << "]}";
  }
  std::string table_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "c.json"});
    return out_of(arguments);
  }
  ResultFile result(const std::string& out = "results") const {
    return read_result(folder_ / out / "c.json");
  }
};

}  // namespace

TEST_F(Run, MeasuresThenReusesWithTheSameTable) {
  std::string first = table_of({});
  EXPECT_NE(first.find("w40"), std::string::npos);
  EXPECT_EQ(units("runs"), 7u * 4u);
  EXPECT_EQ(count_in_err("measured before"), 0u);
  std::string json = content_of(folder_ / "results/c.json");
  EXPECT_EQ(table_of({}), first);
  EXPECT_EQ(count_in_err("measured before"), 28u);
  EXPECT_EQ(content_of(folder_ / "results/c.json"), json) << "even the seconds are those of the units";

  ResultFile made = result();
  ASSERT_EQ(made.rows.size(), 7u);
  EXPECT_EQ(made.rows[0].name, "full cache");
  EXPECT_EQ(made.rows[0].delta_bits, 0);
  EXPECT_EQ(made.rows[0].tokens_kept, (40 + 63) / 2.0) << "queries 39 .. 62 see 40 .. 63 tokens";
  EXPECT_EQ(made.rows[0].stored_bytes_per_token, 2 * 2 * 2 * 8 * 2)
      << "layers, K and V, heads, channels, bytes";
  EXPECT_EQ(made.rows[1].tokens_kept, 4);
  EXPECT_GT(made.rows[1].kl_bits, 0);
  EXPECT_TRUE(made.rows[1].delta_low_bits.has_value());
  EXPECT_FALSE(made.rows[0].no_effect);
  EXPECT_FALSE(made.rows[3].no_effect) << "a window of 40 misses tokens from query 40 on";
  EXPECT_TRUE(made.rows[4].no_effect) << "a window of 100 is the full cache";
  EXPECT_EQ(made.rows[4].delta_bits, 0);
  EXPECT_EQ(made.weights_sha256.size(), 64u);
  auto losses = SafetensorsFile::open(folder_ / "results/c.safetensors");
  EXPECT_EQ(losses.tensor("w4").shape, (std::vector<int64_t>{4, 24}));
  auto full = losses.numbers<double>("full cache"), same = losses.numbers<double>("w100");
  EXPECT_EQ(full, same);
  // A window of 40 sees all that query 39 may see: its first scored token is the full cache's own.
  auto late = losses.numbers<double>("w40");
  EXPECT_EQ(late[0], full[0]);
  EXPECT_NE(late[1], full[1]);
}

TEST_F(Run, GoesOnAfterKillDashNineWithAByteEqualTable) {
  write_config(120);
  std::string expected = table_of({"--store", "other"});
  Program killed(folder_, {"run", "c.json"});
  for (int i = 0; i < 20000 && units("runs") < 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  killed.kill(SIGKILL);
  EXPECT_EQ(killed.wait(), 128 + SIGKILL) << "it finished before it could be killed";
  size_t before = units("runs");
  EXPECT_GE(before, 5u);
  EXPECT_LT(before, 7u * 120u);
  EXPECT_EQ(table_of({}), expected);
  EXPECT_EQ(count_in_err("measured before"), before);
}

TEST_F(Run, ARowAddedLaterLeavesTheOthersAlone) {
  table_of({"--rows", "^w"});
  EXPECT_EQ(units("runs"), 5u * 4u);
  std::string all = table_of({});
  EXPECT_EQ(count_in_err("measured before"), 20u);
  EXPECT_EQ(all, table_of({"--store", "other"}));
  // A name is not part of what is measured.
  table_of({"--set", "rows[1].name=four bits"});
  EXPECT_EQ(count_in_err("measured before"), 28u);
  table_of({"--set", "rows[1].keys.bits=3"});
  EXPECT_EQ(count_in_err("measured before"), 24u);
}

TEST_F(Run, ShardsMakeTheSameTable) {
  std::string expected = table_of({"--store", "other", "--out", "whole"});
  Program first(folder_, {"run", "c.json", "--shard", "1/2"}),
      second(folder_, {"run", "c.json", "--shard", "2/2"});
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_TRUE(first.out() == expected || second.out() == expected) << "the last to finish prints the table";
  EXPECT_EQ(units("runs"), 28u);
  EXPECT_EQ(table_of({}), expected);
}

TEST_F(Run, TwoProcessesMayShareAFolder) {
  Program first(folder_, {"run", "c.json"}), second(folder_, {"run", "c.json"});
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(first.out(), second.out());
  EXPECT_EQ(units("runs"), 28u);
}

TEST_F(Run, ADamagedUnitIsNotedAndMeasuredAgain) {
  std::string expected = table_of({});
  auto victim = fs::directory_iterator(folder_ / "runs")->path();
  fs::resize_file(victim, fs::file_size(victim) / 2);
  EXPECT_EQ(table_of({}), expected);
  EXPECT_EQ(count_in_err("kvcost: note: "), 1u);
  EXPECT_EQ(count_in_err("measured before"), 27u);
}

TEST_F(Run, PerturbedRepeatsGiveASpread) {
  write_config(3, R"("perturb": {"relative": 1e-3, "repeats": 3, "windows": 2},)");
  table_of({});
  EXPECT_EQ(units("runs"), 7u * 3u + 2u * 3u * 2u) << "two rows round";
  ResultFile made = result();
  EXPECT_FALSE(made.rows[1].spread_bits.has_value());
  ASSERT_TRUE(made.rows[5].spread_bits.has_value());
  EXPECT_GT(*made.rows[5].spread_bits, 0);
  EXPECT_EQ(made.rows[5].spread_repeats, 3);
  EXPECT_EQ(made.rows[5].spread_windows, 2);
  const SafetensorsFile losses = SafetensorsFile::open(losses_path(folder_ / "results" / "c.json"));
  const SafetensorsTensor* perturbed = losses.find(made.rows[5].name + "\tperturbed");
  ASSERT_NE(perturbed, nullptr);
  EXPECT_EQ(perturbed->shape, (std::vector<int64_t>{3, 2, made.scored}));
  std::vector<double> repeats;
  const std::vector<double> all = losses.numbers<double>(perturbed->name);
  for (size_t r = 0, each = all.size() / 3; r < 3; ++r) {
    repeats.push_back(mean(std::span(all).subspan(r * each, each)));
  }
  EXPECT_NEAR(standard_deviation(repeats), *made.rows[5].spread_bits, 1e-12);
  EXPECT_EQ(losses.find(made.rows[1].name + "\tperturbed"), nullptr);
}

TEST_F(Run, NanIsOneLineNamingRowAndLayer) {
  write_tiny_model(folder_ / "huge", 1e25);
  Program program(folder_, {"run", "c.json", "--set", "model=./huge"});
  EXPECT_EQ(program.wait(), 1);
  std::string err = program.err();
  std::string last = err.substr(err.rfind("kvcost: error: "));
  EXPECT_NE(last.find("row 'full cache'"), std::string::npos) << last;
  EXPECT_NE(last.find("layer 0"), std::string::npos) << last;
  EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 1);
  EXPECT_EQ(units("runs"), 0u);
}

TEST_F(Run, RefusesTooLittleTextAndUnknownFiles) {
  for (std::vector<std::string> changes : {std::vector<std::string>{"--windows", "5000"},
                                           {"--set", "text=absent.txt"},
                                           {"--set", "model=./absent"}}) {
    changes.insert(changes.begin(), {"run", "c.json"});
    Program program(folder_, changes);
    EXPECT_EQ(program.wait(), 2) << changes.back();
    std::string err = program.err();
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  }
}

TEST_F(Run, InspectTellsShapesAndBytes) {
  Program program(folder_, {"inspect", "./tiny"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  std::string out = program.out();
  for (const char* text :
       {"qwen2, 2 layers", "4 query heads, 2 KV heads of 8", "128 bytes a token", "largest key bias"}) {
    EXPECT_NE(out.find(text), std::string::npos) << text << "\n" << out;
  }
}

}  // namespace kvcost
