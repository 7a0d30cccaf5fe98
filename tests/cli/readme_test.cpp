// The documentation says what the program does: its tables are the program's own, its commands run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "src/base/file.h"
#include "tests/cli/command.h"

namespace kvcost {
namespace {

const std::filesystem::path kSource = KVCOST_SOURCE_DIR;

Outcome update_tables(const std::string& arguments) {
  return run_command(fmt::format("KVCOST='{}' '{}' {} 2>&1", KVCOST_BINARY,
                                 (kSource / "docs/update_tables.sh").string(), arguments));
}

/// Lines of ```sh fences that begin with "./kvcost " and one of the cheap commands.
std::vector<std::string> cheap_commands(const std::string& markdown) {
  std::vector<std::string> commands;
  std::istringstream in(markdown);
  bool shell = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      shell = !shell && (line == "```sh" || line == "```bash");
      continue;
    }
    for (const char* cheap : {"table ", "budget", "list", "validate ", "--help", "--version"}) {
      if (shell && line.starts_with(std::string("./kvcost ") + cheap)) commands.push_back(line.substr(9));
    }
  }
  return commands;
}

}  // namespace

TEST(Readme, TablesAreWhatTheProgramPrints) {
  std::string readme = read_text(kSource / "README.md");
  EXPECT_NE(readme.find("<!-- kvcost "), std::string::npos) << "no table is written by the program";
  Outcome outcome = update_tables("--check");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << "\nrun docs/update_tables.sh";
}

TEST(Readme, CommandsRun) {
  std::vector<std::string> commands = cheap_commands(read_text(kSource / "README.md"));
  EXPECT_GE(commands.size(), 3u);
  for (const std::string& command : commands) {
    Outcome outcome =
        run_command(fmt::format("cd '{}' && '{}' {} 2>&1", kSource.string(), KVCOST_BINARY, command));
    EXPECT_EQ(outcome.exit_code, 0) << "./kvcost " << command << "\n" << outcome.output;
  }
}

TEST(UpdateTables, ChecksWritesAndRefuses) {
  std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "kvcost_update_tables.md";
  auto quoted = [&](const char* flag) { return fmt::format("{} '{}'", flag, file.string()); };
  write_atomically(file, "before\n<!-- kvcost budget -->\nold\n<!-- end -->\nafter\n");
  EXPECT_EQ(update_tables(quoted("--check")).exit_code, 1);
  EXPECT_NE(read_text(file).find("old"), std::string::npos) << "--check must write nothing";
  EXPECT_EQ(update_tables(quoted("")).exit_code, 0);
  std::string written = read_text(file);
  EXPECT_TRUE(written.starts_with("before\n<!-- kvcost budget -->\n```text\n")) << written;
  EXPECT_TRUE(written.ends_with("```\n<!-- end -->\nafter\n")) << written;
  EXPECT_NE(written.find("819,200 B"), std::string::npos) << written;
  EXPECT_EQ(written.find("old"), std::string::npos);
  EXPECT_EQ(update_tables(quoted("--check")).exit_code, 0);

  for (const char* bad :
       {"<!-- kvcost budget -->\nno end\n", "<!-- end -->\n", "<!-- kvcost run x -->\n<!-- end -->\n",
        "<!-- kvcost table /absent.json -->\n<!-- end -->\n"}) {
    write_atomically(file, bad);
    EXPECT_EQ(update_tables(quoted("")).exit_code, 2) << bad;
    EXPECT_EQ(read_text(file), bad) << "a refused file must stay as it was";
  }
  std::filesystem::remove(file);
}

}  // namespace kvcost
