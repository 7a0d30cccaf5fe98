#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/harness/config/experiment.h"

namespace kvcost {
namespace {

std::string config_with(const std::string& what) {
  return R"({"model": "m", "text": "t", "rows": [], )" + what + "}";
}

std::string error_of(const std::string& what, const ExperimentChanges& changes = {}) {
  try {
    parse_experiment(config_with(what), "x.json", changes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kRecall = R"("recall": {"cases": 64, "depths": [0.1, 1], "context_tokens": 1024})";

}  // namespace

TEST(RecallConfig, StandsInPlaceOfWindows) {
  Experiment experiment = parse_experiment(config_with(kRecall), "x.json");
  ASSERT_TRUE(experiment.recall.has_value());
  EXPECT_EQ(experiment.recall->cases, 64);
  EXPECT_EQ(experiment.recall->depths, (std::vector<double>{0.1, 1}));
  EXPECT_EQ(experiment.recall->context_tokens, 1024);
  EXPECT_EQ(experiment.recall->seed, 0);
  EXPECT_EQ(experiment.windows, 0);
  ExperimentChanges changes;
  changes.cases = 3;
  changes.set = {"recall.seed=9"};
  experiment = parse_experiment(config_with(kRecall), "x.json", changes);
  EXPECT_EQ(experiment.recall->cases, 3);
  EXPECT_EQ(experiment.recall->seed, 9);
  EXPECT_EQ(experiment.config["recall"]["cases"], 3) << "the result records what was run";
}

TEST(RecallConfig, RefusesInOneLine) {
  const std::string windows = R"("windows": {"count": 1, "length": 8, "scored": 4})";
  EXPECT_EQ(error_of(windows), "");
  EXPECT_EQ(error_of(R"("name": "a")"), "x.json: windows: found nothing, expected an object");
  EXPECT_EQ(error_of(windows + "," + kRecall),
            "x.json: windows: found beside \"recall\", expected one of the two");
  ExperimentChanges windowed;
  windowed.windows = 2;
  EXPECT_NE(error_of(kRecall, windowed), "");
  ExperimentChanges cases;
  cases.cases = 2;
  EXPECT_NE(error_of(windows, cases), "");

  auto recall = [](const std::string& inside) { return R"("recall": {)" + inside + "}"; };
  EXPECT_EQ(error_of(recall(R"("cases": 64, "depths": [0.1, 0.5])")),
            "x.json: recall.context_tokens: found nothing, expected an integer from 64 to 1048576");
  EXPECT_EQ(error_of(recall(R"("cases": 0, "depths": [0.1, 0.5], "context_tokens": 100)")),
            "x.json: recall.cases: found 0, expected an integer from 1 to 100000");
  EXPECT_EQ(error_of(recall(R"("cases": 1, "depths": [0.1], "context_tokens": 100)")),
            "x.json: recall.depths: found [0.1], expected a list of 2 to 20 values");
  EXPECT_EQ(error_of(recall(R"("cases": 1, "depths": [0.1, 1.5], "context_tokens": 100)")),
            "x.json: recall.depths[1]: found 1.5, expected a number from 0 to 1");
  EXPECT_EQ(error_of(recall(R"("cases": 1, "depths": [0.5, 0.1, 0.5], "context_tokens": 100)")),
            "x.json: recall.depths: found 0.5 twice");
  EXPECT_EQ(error_of(recall(R"("cases": 1, "depths": [0.5, 0.1], "context_tokens": 100, "sed": 1)")),
            "x.json: recall.sed: unknown setting, did you mean 'seed'?");
}

}  // namespace kvcost
