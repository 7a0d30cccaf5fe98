// kvcost plot as a program: what it writes and how it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/base/file.h"
#include "tests/cli/command.h"
#include "tests/report/sample_losses.h"

namespace kvcost {
namespace {

class PlotCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("kvcost_plot_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    ResultFile result = sample_result();
    result.rows[1].config = {{"evict", {{"policy", "window"}, {"capacity", 512}}}};
    write_result(result, path("good.json"));
    write_sample_losses(sample_losses(result), result, path("good.safetensors"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Outcome plot(const std::string& arguments, const std::string& before = "") const {
    return run_command(
        fmt::format("cd '{}' && {} {} plot {} 2>&1", folder_.string(), before, KVCOST_BINARY, arguments));
  }

  static void expect_line(const Outcome& outcome, int exit_code, const std::string& line) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
    EXPECT_EQ(outcome.output, "kvcost: error: " + line + "\n");
  }

  static bool has_gnuplot() { return run_command("command -v gnuplot").exit_code == 0; }

  std::filesystem::path folder_;
};

}  // namespace

TEST_F(PlotCommand, WritesByTheNamesEnding) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_EQ(plot("good.json").output, "good-loss.svg\n");
  EXPECT_TRUE(read_text(path("good-loss.svg")).starts_with("<?xml"));
  EXPECT_EQ(plot("good.json --kind position").output, "good-position.svg\n");
  EXPECT_NE(read_text(path("good-position.svg")).find("4 sink tokens + the last 508"), std::string::npos);
  EXPECT_EQ(plot("good.json --kind position --rows 'last 512' --out a.png").output, "a.png\n");
  EXPECT_TRUE(read_text(path("a.png")).starts_with("\x89PNG"));
  EXPECT_EQ(plot("good.json good.json").output, "good+good-loss.svg\n");
  auto files = std::distance(std::filesystem::directory_iterator(folder_), {});
  EXPECT_EQ(files, 6) << "a temporary file was left behind";
}

TEST_F(PlotCommand, RefusesInOneLine) {
  expect_line(plot("good.json --kind los"), 2, "--kind: unknown 'los', did you mean 'loss'?");
  expect_line(plot("good.json --out a.pdf"), 2,
              "--out: found 'a.pdf', expected a name that ends in .svg or .png");
  expect_line(plot("absent.json"), 2, "absent.json: cannot open: No such file or directory");
  expect_line(plot("good.json --kind keys"), 2,
              "sample: key_statistics: found none, which the plot of keys needs");
  expect_line(plot("good.json --rows nothing"), 2, "--rows nothing: matches no row");
  expect_line(plot("good.json --rows '('"), 2, "--rows (: not a regular expression");
  std::filesystem::remove(path("good.safetensors"));
  expect_line(plot("good.json --kind position"), 2,
              "good.safetensors: cannot open: No such file or directory");
}

TEST_F(PlotCommand, NamesThePackageThatIsMissing) {
  expect_line(plot("good.json", "PATH=/nowhere"), 1,
              "gnuplot: not found; plots need the package gnuplot-nox");
  EXPECT_FALSE(std::filesystem::exists(path("good-loss.svg")));
}

}  // namespace kvcost
