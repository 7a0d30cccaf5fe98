// Editors complete a policy's knobs from the schema, which cannot ask the registry.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/cache/registry.h"
#include "src/harness/config/experiment.h"

namespace kvcost {

TEST(SchemaHints, DescribeEveryKnobOfEveryPolicy) {
  const nlohmann::json& evict =
      experiment_schema()["definitions"]["row"]["properties"]["evict"]["properties"];
  for (const auto& entry : policies()) {
    if (entry.name.starts_with("testing-")) continue;
    const auto& names = evict["policy"]["examples"];
    EXPECT_NE(std::find(names.begin(), names.end(), entry.name), names.end()) << entry.name;
    for (const KnobHelp& knob : entry.description.knobs) {
      ASSERT_TRUE(evict.contains(knob.name)) << entry.name << "." << knob.name;
      EXPECT_NE(evict[knob.name].value("description", ""), "") << entry.name << "." << knob.name;
    }
  }
}

}  // namespace kvcost
