#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/cache/registry.h"
#include "tests/support/program.h"

namespace kvcost {
namespace {

class Usage : public testing::Test {
 protected:
  Usage()
      : folder_(std::filesystem::path(testing::TempDir()) / ("kvcost_usage_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Usage() override { std::filesystem::remove_all(folder_); }

  /// Runs, expects exit code 2 and one line on stderr; gives that line less its prefix.
  std::string refusal(std::vector<std::string> arguments) {
    Program program(folder_, std::move(arguments));
    EXPECT_EQ(program.wait(), 2);
    EXPECT_EQ(program.out(), "");
    std::string err = program.err(), prefix = "kvcost: error: ";
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_EQ(err.substr(0, prefix.size()), prefix);
    return err.size() > prefix.size() ? err.substr(prefix.size(), err.size() - prefix.size() - 1) : err;
  }
  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
    return name;
  }
  std::filesystem::path folder_;
};

}  // namespace

TEST_F(Usage, MistakesAreOneLineWithTheNearestName) {
  EXPECT_NE(refusal({}).find("subcommand"), std::string::npos);
  EXPECT_EQ(refusal({"rnu", "x.json"}), "unknown command 'rnu', did you mean 'run'?");
  EXPECT_EQ(refusal({"run", "x.json", "--widnows", "3"}),
            "unknown option '--widnows', did you mean '--windows'?");
  EXPECT_EQ(refusal({"list", "windwo"}), "'windwo': no such policy or codec, did you mean 'window'?");
  EXPECT_EQ(refusal({"run", "absent.json"}), "absent.json: cannot open: No such file or directory");
  EXPECT_NE(refusal({"run"}).find("CONFIG"), std::string::npos);
  EXPECT_NE(refusal({"run", "x.json", "--windows", "many"}).find("--windows"), std::string::npos);
  std::string config = write("good.json", R"({"model": "m", "text": "t", "rows": [],
      "windows": {"count": 1, "length": 8, "scored": 4}})");
  EXPECT_EQ(refusal({"run", config, "--shard", "3/2"}),
            "--shard: found '3/2', expected K/N with K from 1 to N");
  EXPECT_NE(refusal({"run", config}).find("model 'm'"), std::string::npos);
  EXPECT_NE(refusal({"inspect", "smolm2-135m"}).find("model 'smolm2-135m'"), std::string::npos);
}

TEST_F(Usage, HelpAndVersionSucceed) {
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"--version"}}) {
    Program program(folder_, arguments);
    EXPECT_EQ(program.wait(), 0);
    EXPECT_NE(program.out(), "");
    EXPECT_EQ(program.err(), "");
  }
}

TEST_F(Usage, ValidateChecksKnobsWithoutAModel) {
  auto config = [&](const std::string& row) {
    return write("c.json", R"({"model": "nowhere", "text": "nothing", "rows": [)" + row +
                               R"(], "windows": {"count": 1, "length": 8, "scored": 4}})");
  };
  Program good(folder_, {"validate", config(R"({"name": "w{evict.capacity}",
      "evict": {"policy": "window", "capacity": [4, 8]}})"),
                         "--list"});
  EXPECT_EQ(good.wait(), 0) << good.err();
  EXPECT_NE(good.out().find("2 rows"), std::string::npos);
  EXPECT_NE(good.out().find("w8"), std::string::npos);
  EXPECT_EQ(refusal({"validate", config(R"({"name": "a", "evict": {"policy": "window", "capasity": 4}})")}),
            "c.json: rows[0].evict.capacity: found nothing, expected an integer of at least 1");
  EXPECT_EQ(refusal({"validate",
                     config(R"({"name": "a"}, {"name": "b", "evict": {"policy": "snks", "capacity": 4}})")}),
            "c.json: rows[1].evict.policy: unknown 'snks', did you mean 'sinks'?");
  EXPECT_EQ(
      refusal({"validate", config(R"({"name": "a",
                "evict": {"policy": "window", "capacity": 4, "sinks": 3}})")}),
      "c.json: rows[0].evict.sinks: unknown setting, expected one of budgets, capacity, policy, positions");
}

TEST_F(Usage, ValidateAcceptsEveryShippedConfig) {
  std::vector<std::string> arguments = {"validate"};
  for (const auto& entry : std::filesystem::directory_iterator(KVCOST_SOURCE_DIR "/configs")) {
    if (entry.path().filename() != "schema.json") arguments.push_back(entry.path().string());
  }
  Program program(folder_, arguments);
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(program.err(), "");
}

TEST_F(Usage, ListHasOneLineForEachPolicyAndCodec) {
  Program program(folder_, {"list"});
  EXPECT_EQ(program.wait(), 0);
  std::string out = program.out();
  auto lines = static_cast<size_t>(std::count(out.begin(), out.end(), '\n'));
  // This program registers policies of its own, for other tests.
  auto shipped = [&](const auto& entry) { return out.find("\n  " + entry.name) != std::string::npos; };
  auto found = std::count_if(policies().begin(), policies().end(), shipped) +
               std::count_if(codecs().begin(), codecs().end(), shipped);
  EXPECT_EQ(lines, static_cast<size_t>(found) + 2);
  for (const char* name : {"full", "sinks", "window", "minmax"}) {
    EXPECT_NE(out.find(std::string("\n  ") + name), std::string::npos) << name;
  }
  for (const auto& entry : codecs()) {
    EXPECT_NE(out.find(entry.description.paper), std::string::npos);
    Program one(folder_, {"list", entry.name});
    EXPECT_EQ(one.wait(), 0);
    for (const KnobHelp& knob : entry.description.knobs)
      EXPECT_NE(one.out().find(knob.name), std::string::npos);
  }
}

}  // namespace kvcost
