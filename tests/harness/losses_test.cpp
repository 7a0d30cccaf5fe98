#include "src/harness/losses.h"

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "tests/report/sample_losses.h"

namespace kvcost {
namespace {

class LossesFile : public testing::Test {
 protected:
  LossesFile()
      : path_(std::filesystem::path(testing::TempDir()) / "kvcost_losses.safetensors"),
        result_(sample_result()) {
    losses_ = sample_losses(result_);
  }
  ~LossesFile() override { std::filesystem::remove(path_); }

  std::string refusal() {
    try {
      read_losses(path_, result_);
    } catch (const InputError& error) {
      std::string what = error.what();
      return what.starts_with(path_.string() + ": ") ? what.substr(path_.string().size() + 2) : what;
    }
    return "";
  }

  std::filesystem::path path_;
  ResultFile result_;
  Losses losses_;
};

}  // namespace

TEST_F(LossesFile, GoesAround) {
  write_sample_losses(losses_, result_, path_);
  EXPECT_EQ(read_losses(path_, result_).rows, losses_.rows);
  EXPECT_EQ(losses_path("results/a.b.json"), "results/a.b.safetensors");
}

TEST_F(LossesFile, OfAnotherResultIsRefused) {
  EXPECT_NE(refusal().find("cannot open"), std::string::npos);
  write_sample_losses(losses_, result_, path_);
  result_.rows[2].name = "h2o";
  EXPECT_EQ(refusal(), "row 'h2o': found no losses: the file belongs to another result");
  result_ = sample_result();
  result_.rows[2].loss_bits += 0.001;
  EXPECT_EQ(
      refusal(),
      "row '4 sink tokens + the last 508': found a mean of 3.235000 bits, expected the result's 3.236000");
  result_ = sample_result();
  result_.windows = 4;
  EXPECT_EQ(refusal(), "row 'full cache': found 8192 losses, expected 4 windows of 1024");
  result_ = sample_result();
  result_.rows[4].name = result_.rows[3].name;
  EXPECT_EQ(refusal(), "row '2-bit, per token': the result has two rows of this name");
}

}  // namespace kvcost
