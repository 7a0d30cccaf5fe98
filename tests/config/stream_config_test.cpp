#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/harness/config/experiment.h"

namespace kvcost {
namespace {

std::string config_with(const std::string& what, const std::string& rows = "") {
  return R"({"model": "m", "text": "t", "rows": [)" + rows + "], " + what + "}";
}

std::string error_of(const std::string& what, const std::string& rows = "") {
  try {
    parse_experiment(config_with(what, rows), "x.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string stream(const std::string& inside) { return R"("stream": {)" + inside + "}"; }

}  // namespace

TEST(StreamConfig, StandsInPlaceOfWindows) {
  Experiment experiment = parse_experiment(config_with(stream(R"("tokens": 65536)")), "x.json");
  ASSERT_TRUE(experiment.stream.has_value());
  EXPECT_EQ(experiment.stream->tokens, 65536);
  EXPECT_EQ(experiment.stream->chunk, 2048);
  EXPECT_FALSE(experiment.stream->full_limit.has_value());
  EXPECT_EQ(experiment.windows, 0);
  ExperimentChanges changes;
  changes.set = {"stream.chunk=7", "stream.full_limit=100"};
  experiment = parse_experiment(config_with(stream(R"("tokens": 300)")), "x.json", changes);
  EXPECT_EQ(experiment.stream->chunk, 7);
  EXPECT_EQ(experiment.stream->full_limit, 100);
  EXPECT_EQ(experiment.config["stream"]["chunk"], 7) << "the result records what was run";
}

TEST(StreamConfig, RefusesInOneLine) {
  EXPECT_EQ(error_of(stream(R"("chunk": 8)")),
            "x.json: stream.tokens: found nothing, expected an integer from 2 to 16777216");
  EXPECT_EQ(error_of(stream(R"("tokens": 1)")),
            "x.json: stream.tokens: found 1, expected an integer from 2 to 16777216");
  EXPECT_EQ(error_of(stream(R"("tokens": 8, "chunk": 0)")),
            "x.json: stream.chunk: found 0, expected an integer from 1 to 1048576");
  EXPECT_EQ(error_of(stream(R"("tokens": 8, "ful_limit": 4)")),
            "x.json: stream.ful_limit: unknown setting, did you mean 'full_limit'?");
  EXPECT_EQ(error_of(stream(R"("tokens": 8)") + R"(, "windows": {"count": 1, "length": 8, "scored": 4})"),
            "x.json: windows: found beside \"stream\", expected one of the two");
  EXPECT_EQ(error_of(stream(R"("tokens": 8)") +
                     R"(, "recall": {"cases": 1, "depths": [0.1, 1], "context_tokens": 100})"),
            "x.json: recall: found beside \"stream\", expected one of the two");
  EXPECT_EQ(error_of(stream(R"("tokens": 8)") + R"(, "perturb": {"relative": 1e-7, "repeats": 2})"),
            "x.json: perturb: found beside \"stream\", which has no repeats");
  EXPECT_EQ(error_of(stream(R"("tokens": 8)"),
                     R"({"name": "a"}, {"name": "b", "perturb": {"relative": 1e-7, "repeats": 2}})"),
            "x.json: rows[1].perturb: found beside \"stream\", which has no repeats");
}

}  // namespace kvcost
