#include "src/report/layout.h"

#include <gtest/gtest.h>

#include <sstream>

namespace kvcost {

TEST(Layout, WidthIsTerminalColumns) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("±"), 1u);
  EXPECT_EQ(display_width("e\u0301"), 1u) << "a combining mark takes no column of its own";
  EXPECT_EQ(display_width("窓口"), 4u);
  EXPECT_EQ(display_width("👩\u200d🔬"), 2u) << "a joined emoji";
  EXPECT_EQ(display_width("\xff\xff"), 2u) << "invalid UTF-8 still has a width";
  EXPECT_EQ(display_width(""), 0u);
}

TEST(Layout, Commas) {
  EXPECT_EQ(with_commas(int64_t{0}), "0");
  EXPECT_EQ(with_commas(int64_t{819200}), "819,200");
  EXPECT_EQ(with_commas(int64_t{-1234567}), "-1,234,567");
  EXPECT_EQ(with_commas(1234.56, 1), "1,234.6");
  EXPECT_EQ(with_commas(-0.25, 2), "-0.25");
}

TEST(Layout, ColumnsLineUpInTerminalColumns) {
  TextGrid grid({TextGrid::Align::left, TextGrid::Align::right});
  grid.row({"窓口", "1"});
  grid.row({"abcde", "10"});
  EXPECT_EQ(grid.text(), "窓口    1\nabcde  10\n");
}

TEST(Layout, LongNamesWrapAndNumbersStandByTheLastLine) {
  TextGrid grid({TextGrid::Align::left, TextGrid::Align::right});
  grid.row({"  one two three four five", "1.000"});
  grid.row({"  six", "22.000"});
  EXPECT_EQ(grid.text(26), "  one two three\n    four five     1.000\n  six            22.000\n");
}

TEST(Layout, MarkdownEscapesWhatWouldBreakTheTable) {
  TextGrid grid({TextGrid::Align::left, TextGrid::Align::right});
  grid.row({"", "loss"});
  grid.heading("keep");
  grid.row({"  a|b*", "1"});
  EXPECT_EQ(grid.markdown(),
            "|          | loss |\n| -------- | ----:|\n| **keep** |      |\n| a\\|b\\*   |    1 |\n");
}

TEST(Layout, CsvQuotes) {
  EXPECT_EQ(csv_field("a b"), "a b");
  EXPECT_EQ(csv_field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
}

}  // namespace kvcost
