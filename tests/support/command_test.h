#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/tiny_model.h"

namespace kvcost {

/// The program in a folder of the test's own, with a tiny model in it.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("kvcost_" + std::string(info->test_suite_name()) + info->name() + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    write_tiny_model(folder_ / "tiny");
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  /// Standard output of a command that ends well; err_ is then what it said beside.
  std::string out_of(const std::vector<std::string>& arguments) {
    Program program(folder_, arguments);
    EXPECT_EQ(program.wait(), 0) << program.err();
    err_ = program.err();
    return program.out();
  }
  /// The one line of a command that ends with 2.
  std::string refusal(const std::vector<std::string>& arguments) {
    Program program(folder_, arguments);
    EXPECT_EQ(program.wait(), 2);
    EXPECT_EQ(program.out(), "");
    std::string err = program.err(), prefix = "kvcost: error: ";
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    return err.substr(prefix.size(), err.size() - prefix.size() - 1);
  }
  size_t count_in_err(const std::string& text) const {
    size_t count = 0;
    for (size_t at = err_.find(text); at != std::string::npos; at = err_.find(text, at + 1)) ++count;
    return count;
  }
  /// Files of finished units.
  size_t units(const std::string& store) const {
    size_t count = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / store, none)) {
      count += entry.path().extension() == ".safetensors";
    }
    return count;
  }

  std::filesystem::path folder_;
  std::string err_;
};

}  // namespace kvcost
