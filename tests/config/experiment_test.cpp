#include "src/harness/config/experiment.h"

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace kvcost {
namespace {

std::string config_with(const std::string& rows, const std::string& more = "") {
  return R"({ "model": "m", "text": "t", // a comment
    "windows": {"count": 2, "length": 64, "scored": 32},)" +
         more + R"( "rows": [)" + rows + "]}";
}

std::vector<std::string> names(const Experiment& experiment) {
  std::vector<std::string> names;
  for (const RowSpec& row : experiment.rows) names.push_back(row.name);
  return names;
}

using Names = std::vector<std::string>;

std::string error_of(const std::string& text, const ExperimentChanges& changes = {}) {
  try {
    parse_experiment(text, "x.json", changes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Experiment, ReadsAConfigWithComments) {
  Experiment experiment = parse_experiment(
      config_with(
          R"({"name": "a", "section": "s", "evict": {"policy": "window", "capacity": 8}, "exact_last": 3})"),
      "configs/tiny.json");
  EXPECT_EQ(experiment.name, "tiny");
  EXPECT_EQ(experiment.text, Names{"t"});
  EXPECT_EQ(experiment.scored, 32);
  EXPECT_EQ(experiment.dtype, "fp32");
  ASSERT_EQ(experiment.rows.size(), 1u);
  EXPECT_EQ(experiment.rows[0].section, "s");
  EXPECT_EQ(experiment.rows[0].config().dump(),
            R"({"evict":{"capacity":8,"policy":"window"},"exact_last":3})");
  EXPECT_TRUE(experiment.rows[0].keys.is_null());
}

TEST(Experiment, ListsStandForTheirGrid) {
  auto text = config_with(R"({"name": "{keys.bits} {keys.axis} {exact_last}", "exact_last": [0, 16],
      "keys": {"codec": "minmax", "bits": [8, 4], "axis": ["token", "channel"], "group": 32}})");
  EXPECT_EQ(names(parse_experiment(text, "x.json")),
            (Names{"8 token 0", "8 channel 0", "4 token 0", "4 channel 0", "8 token 16", "8 channel 16",
                   "4 token 16", "4 channel 16"}));
}

TEST(Experiment, RefusesGridsThatExplodeOrCollide) {
  std::string many = "[0";
  for (int i = 1; i < 200; ++i) many += "," + std::to_string(i);
  many += "]";
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "exact_last": )" + many + R"(,
      "evict": {"policy": "window", "capacity": )" +
                                 many.replace(1, 1, "7") + "}}")),
            "x.json: rows[0].evict.capacity: the lists make more than 10000 rows");
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "exact_last": [1, 2]})")),
            "x.json: rows[0].name: 'a' is also the name of rows[0]'s other rows: let it say {evict.capacity} "
            "or whatever else differs");
  EXPECT_EQ(error_of(config_with(R"({"name": "a"}, {"name": "a", "exact_last": 1})")),
            "x.json: rows[1].name: 'a' is also the name of rows[0]");
  EXPECT_NE(error_of(config_with(R"({"name": "full cache"})")), "");
  EXPECT_EQ(
      error_of(config_with(R"({"name": "{evict.capasity}", "evict": {"policy": "window", "capacity": 3}})")),
      "x.json: rows[0].name: '{evict.capasity}' names nothing in the row, did you mean 'evict.capacity'?");
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "exact_last": []})")),
            "x.json: rows[0].exact_last: found an empty list, expected values");
}

TEST(Experiment, ErrorsNameThePathTheValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of(config_with(R"({"name": "a"}, {"name": "b", "exact_last": "x"})")),
            "x.json: rows[1].exact_last: found \"x\", expected an integer of at least 0 or a list");
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "evicts": {}})")),
            "x.json: rows[0].evicts: unknown setting, did you mean 'evict'?");
  EXPECT_EQ(error_of(config_with(R"({"evict": {"policy": "window"}})")),
            "x.json: rows[0].name: found nothing, expected text of 1 to 200 characters");
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "evict": {"capacity": 3}})")),
            "x.json: rows[0].evict.policy: found nothing, expected text or a list");
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "keys": {"codec": "minmax", "bits": 99}})")),
            "x.json: rows[0].keys.bits: found 99, expected an integer from 1 to 16 or a list");
  EXPECT_EQ(error_of(config_with(R"({"name": "a", "keys": {"codec": "minmax", "bits": [4, 99]}})")),
            "x.json: rows[0].keys.bits[1]: found 99, expected an integer from 1 to 16");
  EXPECT_EQ(error_of(config_with("", R"("dtype": "fp31",)")),
            "x.json: dtype: found \"fp31\", expected one of fp32, bf16, did you mean 'fp32'?");
  EXPECT_EQ(error_of(config_with("", R"("modle": "m",)")),
            "x.json: modle: unknown setting, did you mean 'model'?");
  EXPECT_EQ(error_of("[]"), "x.json: found [], expected an object");
  EXPECT_EQ(error_of(R"({"model": "m", "text": "t", "rows": [],
                         "windows": {"count": 1, "length": 8, "scored": 8}})"),
            "x.json: windows.scored: found 8, expected at most length - 1 = 7");
  EXPECT_EQ(
      error_of(R"({"model": "m"})"),
      "x.json: text: found nothing, expected text of 1 to 4096 characters or a list of 1 to 10000 values");
}

TEST(Experiment, RefusesHostileJsonInOneLine) {
  auto deep = config_with(R"({"name": "a", "keys": {"codec": "c", "x": )" + std::string(50000, '[') +
                          std::string(50000, ']') + "}}");
  EXPECT_EQ(error_of(deep), "x.json: nested deeper than 32 levels");
  EXPECT_EQ(error_of(R"({"model": "a", "model": "b"})"), "x.json: the key \"model\" is there twice");
  EXPECT_EQ(error_of(R"({"threads": 18446744073709551615})"), "x.json: a number too large to hold");
  EXPECT_EQ(error_of(config_with(R"({"name": "two\nlines"})")),
            "x.json: rows[0].name: found a control character");
  std::string whole = config_with(R"({"name": "a", "evict": {"policy": "window", "capacity": 8}})");
  for (size_t cut = 0; cut + 1 < whole.size(); ++cut) {
    std::string error = error_of(whole.substr(0, cut));
    EXPECT_NE(error, "") << cut;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(Experiment, SetChangesAnyKey) {
  ExperimentChanges changes;
  changes.set = {"rows[1].evict.capacity=16", "text=other.txt", "text=[\"a\",\"b\"]", "perturb.relative=1e-7",
                 "perturb.repeats=3"};
  changes.windows = 1;
  changes.threads = 4;
  Experiment experiment = parse_experiment(config_with(R"({"name": "a", "values": {"codec": "c"}},
                                      {"name": "w{evict.capacity}", "evict": {"policy": "window"}})"),
                                           "x.json", changes);
  EXPECT_EQ(names(experiment), (Names{"a", "w16"}));
  EXPECT_EQ(experiment.text, (Names{"a", "b"}));
  EXPECT_EQ(experiment.windows, 1);
  EXPECT_EQ(experiment.threads, 4);
  ASSERT_TRUE(experiment.rows[0].perturb.has_value()) << "a row that rounds is perturbed";
  EXPECT_EQ(experiment.rows[0].perturb->repeats, 3);
  EXPECT_FALSE(experiment.rows[1].perturb.has_value()) << "a row that only evicts is not";
  EXPECT_EQ(error_of(config_with(""), {.set = {"rows[0].name=x"}, .rows = {}, .windows = {}, .threads = {}}),
            "--set rows[0].name=x: found index 0, expected less than 0");
  EXPECT_EQ(error_of(config_with(""), {.set = {"model"}, .rows = {}, .windows = {}, .threads = {}}),
            "--set model: expected path=value");
  for (const char* bad : {"=1", "a..b=1", "rows[x]=1", "rows[=1", "rows[0]x=1", "model.x=1", ".a=1"}) {
    EXPECT_NE(
        error_of(config_with(R"({"name": "a"})"), {.set = {bad}, .rows = {}, .windows = {}, .threads = {}}),
        "")
        << bad;
  }
}

TEST(Experiment, RowsKeepsTheNamesThatMatch) {
  auto text =
      config_with(R"({"name": "w{evict.capacity}", "evict": {"policy": "window", "capacity": [4, 8, 16]}})");
  ExperimentChanges changes;
  changes.rows = "w(4|16)$";
  EXPECT_EQ(names(parse_experiment(text, "x.json", changes)), (Names{"w4", "w16"}));
  changes.rows = "sinks";
  EXPECT_EQ(error_of(text, changes), "x.json: --rows sinks: matches none of the 3 rows");
  changes.rows = "(";
  EXPECT_EQ(error_of(text, changes), "x.json: --rows (: not a regular expression");
}

TEST(Experiment, ARowsOwnPerturbGoesFirst) {
  auto text = config_with(R"({"name": "a", "keys": {"codec": "c"}, "perturb": false},
      {"name": "b", "exact_last": 2, "perturb": true},
      {"name": "c", "perturb": {"relative": 0.5, "repeats": 9, "seed": 4, "windows": 1}})",
                          R"("perturb": {"relative": 1e-7, "repeats": 5},)");
  Experiment experiment = parse_experiment(text, "x.json");
  EXPECT_FALSE(experiment.rows[0].perturb.has_value());
  EXPECT_EQ(experiment.rows[1].perturb->repeats, 5);
  EXPECT_EQ(experiment.rows[2].perturb->repeats, 9);
  EXPECT_EQ(experiment.rows[2].perturb->windows, 1);
  EXPECT_NE(error_of(config_with(R"({"name": "b", "perturb": true})")), "");
  EXPECT_EQ(error_of(config_with(R"({"name": "b", "perturb": {"relative": 1, "repeats": 1}})")),
            "x.json: rows[0].perturb.repeats: found 1, expected an integer from 2 to 1000");
}

}  // namespace kvcost
