#include <filesystem>
#include <set>

#include "tests/text/support.h"

namespace kvcost {

TEST(Heldout, EveryDocumentGivesAWindowAndAllTogetherTwelve) {
  const nlohmann::json goldens = golden("heldout_goldens.json");
  std::set<std::string> listed, present;
  for (const char* model : {"smollm2", "qwen2"}) {
    int windows = 0;
    for (const auto& [name, counts] : goldens["documents"].items()) {
      listed.insert(name);
      EXPECT_GE(counts[model]["ids"].get<int>(), 2048) << name;
      windows += counts[model]["ids"].get<int>() / 2048;
    }
    EXPECT_GE(windows, 12) << model;
  }
  for (const auto& entry : std::filesystem::directory_iterator(KVCOST_SOURCE_DIR "/data/heldout"))
    present.insert(entry.path().filename());
  EXPECT_EQ(listed, present);
}

}  // namespace kvcost
