#include "src/base/printable.h"

#include <gtest/gtest.h>

namespace kvcost {

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("±窓 a"), "±窓 a");
}

TEST(Printable, MovesNoCursorAndReversesNothing) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\u202ed\x7f\u0085"), "a?[2Jb?c?d??");
  EXPECT_EQ(printable("\xFFx\xC3"), "?x?");
}

TEST(Printable, IsBounded) {
  EXPECT_EQ(printable(std::string(1000, 'x')), std::string(200, 'x') + "...");
  EXPECT_EQ(printable(std::string(200, 'x')), std::string(200, 'x'));
}

}  // namespace kvcost
