#include "src/base/error.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvcost {

TEST(Error, HintNamesTheNearestValidName) {
  std::vector<std::string> valid = {"window", "sinks", "minmax"};
  EXPECT_EQ(nearest("windwo", valid), "window");
  EXPECT_EQ(nearest("sink", valid), "sinks");
  EXPECT_EQ(nearest("qqqqqqqqqq", valid), "");
  EXPECT_EQ(hint("qqqqqqqqqq", valid), ", expected one of window, sinks, minmax");
}

}  // namespace kvcost
