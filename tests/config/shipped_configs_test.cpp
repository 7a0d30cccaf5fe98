#include <gtest/gtest.h>

#include <filesystem>

#include "src/harness/config/experiment.h"

namespace kvcost {

TEST(ShippedConfigs, AllAreValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KVCOST_SOURCE_DIR "/configs")) {
    if (entry.path().filename() == "schema.json") continue;
    EXPECT_NO_THROW(read_experiment(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 9);
}

TEST(ShippedConfigs, TheArticlesHaveItsSeventeenRows) {
  Experiment quick = read_experiment(KVCOST_SOURCE_DIR "/configs/quick.json");
  EXPECT_EQ(quick.rows.size(), 16u) << "and the full cache";
  EXPECT_EQ(quick.windows, 2);
  for (const char* name : {"blog", "smollm2", "qwen-coder-heldout", "qwen-coder-wikitext"}) {
    Experiment other = read_experiment(std::string(KVCOST_SOURCE_DIR "/configs/") + name + ".json");
    ASSERT_EQ(other.rows.size(), quick.rows.size()) << name;
    for (size_t i = 0; i < quick.rows.size(); ++i) {
      EXPECT_EQ(other.rows[i].name, quick.rows[i].name);
      EXPECT_EQ(other.rows[i].section, quick.rows[i].section);
      EXPECT_EQ(other.rows[i].config(), quick.rows[i].config());
    }
  }
}

}  // namespace kvcost
