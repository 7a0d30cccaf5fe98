#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "src/base/file.h"
#include "src/harness/config/stream_result.h"
#include "tests/support/command_test.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows = R"(
    {"name": "window", "evict": {"policy": "window", "capacity": 60}},
    {"name": "sinks", "evict": {"policy": "sinks", "capacity": 60}},
    {"name": "sinks, renumbered", "evict": {"policy": "sinks", "capacity": 60, "positions": "cache"}},
    {"name": "h2o", "evict": {"policy": "h2o", "capacity": 60}})";
constexpr size_t kUnits = 5;
constexpr int64_t kTokens = 2500, kTrained = 512;

class StreamRun : public CommandTest {
 protected:
  StreamRun() {
    std::ofstream(folder_ / "text.txt") << tiny_text(40000);
    write_config(kTokens);
  }

  void write_config(int64_t tokens) {
    std::ofstream(folder_ / "c.json")
        << R"({"model": "./tiny", "text": "text.txt", "threads": 1, "stream": {"tokens": )" << tokens
        << R"(, "chunk": 64}, "rows": [)" << kRows << "]}";
  }
  std::string table_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"stream", "c.json"});
    return out_of(arguments);
  }
  /// The result less what a clock or the kernel's memory says.
  std::string numbers(const std::string& out) const {
    StreamResult result = read_stream_result(folder_ / out / "c.json");
    for (StreamRow& row : result.rows) row.seconds = 0, row.peak_bytes = 0;
    return stream_result_json(result).dump(1) + content_of(folder_ / out / "c.safetensors");
  }
  std::string refusal(const std::vector<std::string>& arguments, int code = 2) {
    Program program(folder_, arguments);
    EXPECT_EQ(program.wait(), code);
    EXPECT_EQ(program.out(), "");
    const std::string err = program.err(), prefix = "kvcost: error: ";
    const size_t at = err.find(prefix);
    if (at == std::string::npos) return "no error in " + err;
    return err.substr(at + prefix.size(), err.size() - at - prefix.size() - 1);
  }
};

}  // namespace

TEST_F(StreamRun, MeasuresThenReusesWithTheSameTable) {
  const std::string first = table_of({});
  EXPECT_EQ(units("runs"), kUnits);
  EXPECT_EQ(count_in_err("measured before"), 0u);
  EXPECT_EQ(count_in_err("] window: 256 of 2500 tokens, "), 1u) << err_;
  EXPECT_GE(count_in_err(" left\n"), 20u);
  EXPECT_EQ(count_in_err("[5/5] h2o: "), 1u);
  const std::string json = content_of(folder_ / "results/c.json");
  EXPECT_EQ(table_of({}), first);
  EXPECT_EQ(count_in_err("measured before"), kUnits);
  EXPECT_EQ(content_of(folder_ / "results/c.json"), json);
  table_of({"--set", "stream.chunk=100"});
  EXPECT_EQ(count_in_err("measured before"), kUnits) << "chunks change no numbers";

  const StreamResult made = read_stream_result(folder_ / "results/c.json");
  ASSERT_EQ(made.rows.size(), kUnits);
  EXPECT_EQ(made.tokens, kTokens);
  EXPECT_EQ(made.trained_tokens, kTrained);
  EXPECT_EQ(made.full_limit, kTrained);
  EXPECT_EQ(made.documents, 1);
  EXPECT_EQ(made.rows[0].tokens, kTrained);
  EXPECT_FALSE(made.rows[0].past_trained.has_value());
  for (size_t r = 1; r < kUnits; ++r) {
    const StreamRow& row = made.rows[r];
    EXPECT_EQ(row.tokens, kTokens) << row.name;
    EXPECT_EQ(row.chunk, 64);
    EXPECT_EQ(row.block_loss_bits.size(), 3u);
    EXPECT_TRUE(row.past_trained.has_value());
    EXPECT_TRUE(row.against_full.has_value());
    EXPECT_GT(row.tokens_kept, 50);
    EXPECT_LE(row.tokens_kept, 60);
    EXPECT_GT(row.peak_bytes, row.cache_bytes);
    EXPECT_EQ(row.renumbered, r == 3);
    EXPECT_EQ(row.renumbering.has_value(), r == 3);
  }
  EXPECT_EQ(made.rows[3].renumbering_of, "sinks");

  Program again(folder_, {"table", "results/c.json"});
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(again.out(), first);
  for (const char* format : {"markdown", "csv", "json"}) {
    Program other(folder_, {"table", "results/c.json", "--format", format});
    EXPECT_EQ(other.wait(), 0) << other.err();
    EXPECT_NE(other.out().find("sinks, renumbered"), std::string::npos) << format;
  }
}

TEST_F(StreamRun, GoesOnAfterKillDashNineWithByteEqualNumbers) {
  write_config(20000);
  table_of({"--store", "other", "--out", "expected"});
  Program killed(folder_, {"stream", "c.json"});
  for (int i = 0; i < 60000 && units("runs") < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  killed.kill(SIGKILL);
  EXPECT_EQ(killed.wait(), 128 + SIGKILL) << "it finished before it could be killed";
  const size_t before = units("runs");
  EXPECT_GE(before, 2u);
  EXPECT_LT(before, kUnits);
  table_of({});
  EXPECT_EQ(count_in_err("measured before"), before);
  EXPECT_EQ(numbers("results"), numbers("expected"));
}

TEST_F(StreamRun, AnInterruptSaysHowToGoOn) {
  write_config(20000);
  Program interrupted(folder_, {"stream", "c.json"});
  for (int i = 0; i < 60000 && units("runs") < 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  interrupted.kill(SIGINT);
  EXPECT_EQ(interrupted.wait(), 130);
  EXPECT_NE(interrupted.err().find("interrupted; the same command goes on from here"), std::string::npos);
}

TEST_F(StreamRun, ARowAddedLaterAndShards) {
  table_of({"--rows", "^window"});
  EXPECT_EQ(units("runs"), 2u);
  table_of({});
  EXPECT_EQ(count_in_err("measured before"), 2u);
  Program first(folder_, {"stream", "c.json", "--shard", "1/2", "--store", "shared", "--out", "shards"});
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_NE(first.out().find("shard 1/2 is done"), std::string::npos);
  EXPECT_EQ(units("shared"), 3u);
  table_of({"--shard", "2/2", "--store", "shared", "--out", "shards"});
  EXPECT_EQ(numbers("shards"), numbers("results"));
}

TEST_F(StreamRun, ThePartOfATextIsTheSameText) {
  table_of({"--rows", "^window", "--out", "long"});
  table_of({"--rows", "^window", "--set", "stream.tokens=1000"});
  EXPECT_EQ(count_in_err("measured before"), 1u) << "the full cache's row, which ends at its limit";
  const auto whole = SafetensorsFile::open(folder_ / "long/c.safetensors").numbers<float>("window");
  const auto part = SafetensorsFile::open(folder_ / "results/c.safetensors").numbers<float>("window");
  ASSERT_EQ(part.size(), 999u);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_NEAR(part[i], whole[i], 1e-5) << i;
}

TEST_F(StreamRun, DocumentsFollowOneAnother) {
  std::ofstream(folder_ / "a.txt") << tiny_text(400, 1);
  std::ofstream(folder_ / "b.txt") << tiny_text(500, 2);
  table_of({"--set", R"(text=["a.txt", "b.txt"])", "--set", "stream.tokens=600", "--rows", "^window"});
  EXPECT_EQ(count_in_err("note: 2 documents follow one another as one text"), 1u) << err_;
  EXPECT_EQ(read_stream_result(folder_ / "results/c.json").documents, 2);
  EXPECT_EQ(refusal({"stream", "c.json", "--set", R"(text=["a.txt", "b.txt"])"}),
            "too little text: have 900 tokens in 2 documents, need 2500");
}

TEST_F(StreamRun, RefusesInOneLine) {
  EXPECT_EQ(refusal({"run", "c.json"}), "c: found \"stream\", expected \"windows\": kvcost stream runs it");
  std::ofstream(folder_ / "w.json")
      << R"({"model": "./tiny", "text": "text.txt", "windows": {"count": 1, "length": 8, "scored": 4}, "rows": []})";
  EXPECT_EQ(refusal({"stream", "w.json"}), "w: stream: found nothing, expected an object");
  EXPECT_EQ(refusal({"stream", "c.json", "--set", "stream.tokens=0"}),
            "c.json: stream.tokens: found 0, expected an integer from 2 to 16777216");
  table_of({"--rows", "^window", "--set", "stream.tokens=600"});
  EXPECT_EQ(refusal({"table", "results/c.json", "--measures"}),
            "--measures: found with results/c.json, a stream's result, whose table has none");
  EXPECT_EQ(refusal({"plot", "results/c.json", "--kind", "keys"}),
            "--kind: found 'keys', expected 'position': results/c.json is a stream's result");
  EXPECT_EQ(refusal({"plot", "results/c.json", "--rows", "nothing"}), "--rows nothing: matches no row");
  EXPECT_EQ(refusal({"recall", "--table", "results/c.json"}),
            "results/c.json: not a result of kvcost recall");
}

TEST_F(StreamRun, NumbersThatOverflowStopTheRow) {
  write_tiny_model(folder_ / "tiny", 1e36);
  const std::string error = refusal({"stream", "c.json"}, 1);
  EXPECT_EQ(error.find("row 'full cache': layer 0: NaN or infinity"), 0u) << error;
  EXPECT_EQ(units("runs"), 0u);
}

TEST_F(StreamRun, ValidateKnowsIt) {
  Program program(folder_, {"validate", "c.json"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(program.out(), "c.json: good: ./tiny, 4 rows and the full cache, a stream of 2500 tokens\n");
  EXPECT_NE(refusal({"validate", "c.json", "--set",
                     R"(rows[0].keys={"codec": "minmax", "bits": 4, "axis": "token", "group": 8})"})
                .find("c.json: rows[0]"),
            std::string::npos);
}

TEST_F(StreamRun, Plots) {
  table_of({});
  Program program(folder_, {"plot", "results/c.json"});
  if (program.wait() == 1) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_EQ(program.out(), "results/c-position.svg\n") << program.err();
  EXPECT_NE(content_of(folder_ / "results/c-position.svg").find("trained length"), std::string::npos);
}

}  // namespace kvcost
