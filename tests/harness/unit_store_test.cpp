#include "src/harness/unit_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "src/base/error.h"
#include "src/base/file.h"

namespace kvcost {
namespace {

Unit example() {
  Unit unit;
  unit.loss_bits = {1.5, 0.1, 1e-17};
  unit.kl_bits = {0, 0.25, 3};
  unit.true_probability_change = {-0.5, 0, 1e-300};
  unit.top1_agrees = {1, 0, 1};
  unit.tokens_kept = 512.25, unit.stored_bytes_per_token = 1.0 / 3, unit.effective_bits = 4.5;
  unit.changed = true;
  unit.seconds = 0.125;
  unit.capability = "AVX2";
  unit.key_statistics = {{{"layer", 0}, {"span", 243.7}}};
  return unit;
}

UnitIdentity identity() {
  return {"w", "t", hash_of_ids({1, 2, 3}), "fp32", 3, {{"exact_last", 4}}, nullptr};
}

class UnitStoreTest : public testing::Test {
 protected:
  UnitStoreTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / (std::string("kvcost_store_") + info->name());
    std::filesystem::remove_all(folder_);
  }
  ~UnitStoreTest() override { std::filesystem::remove_all(folder_); }
  UnitStore store() {
    return {folder_, [this](const std::string& note) { notes_.push_back(note); }};
  }
  std::filesystem::path folder_;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_F(UnitStoreTest, GivesBackWhatWasPut) {
  UnitStore units = store();
  std::string key = identity().key();
  EXPECT_FALSE(units.find(key, 3).has_value());
  units.put(key, identity(), example());
  auto back = store().find(key, 3);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->loss_bits, example().loss_bits);
  EXPECT_EQ(back->kl_bits, example().kl_bits);
  EXPECT_EQ(back->true_probability_change, example().true_probability_change);
  EXPECT_EQ(back->top1_agrees, example().top1_agrees);
  EXPECT_EQ(back->tokens_kept, 512.25);
  EXPECT_EQ(back->stored_bytes_per_token, 1.0 / 3) << "every bit";
  EXPECT_TRUE(back->changed);
  EXPECT_FALSE(back->evicted);
  EXPECT_EQ(back->capability, "AVX2");
  EXPECT_EQ(back->key_statistics, example().key_statistics);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(UnitStoreTest, AnyDamageMakesAUnitAbsentWithANote) {
  UnitStore units = store();
  std::string key = identity().key();
  units.put(key, identity(), example());
  std::string good = read_text(units.path_of(key));
  auto write = [&](const std::string& content) {
    std::ofstream(units.path_of(key), std::ios::binary | std::ios::trunc) << content;
  };
  constexpr size_t kStep = 3;
  size_t noticed = 0;
  for (size_t i = 0; i < good.size(); i += kStep) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write(bad);
    // The identity is only for people to read; damage anywhere else must be noticed.
    auto found = units.find(key, 3);
    if (found) {
      EXPECT_EQ(found->loss_bits, example().loss_bits) << "byte " << i;
      EXPECT_EQ(found->effective_bits, example().effective_bits) << "byte " << i;
    }
    noticed += !found;
    write(good.substr(0, i));
    EXPECT_FALSE(units.find(key, 3).has_value()) << "cut at " << i;
  }
  EXPECT_GT(noticed, good.size() / kStep / 3);
  EXPECT_GE(notes_.size(), noticed);
  for (const std::string& note : notes_) EXPECT_EQ(note.find('\n'), std::string::npos);
  write(good);
  EXPECT_TRUE(units.find(key, 3).has_value());
  EXPECT_FALSE(units.find(key, 4).has_value()) << "another number of scored tokens";
}

TEST_F(UnitStoreTest, AnswersHaveAKeyOfTheirOwn) {
  EXPECT_EQ(identity().key(), "b27ba92a73b43ae01bf21ec066bd6ff2ecfd841bafc456c1e899643b553d8116")
      << "units measured before answers were known keep their names";
  UnitIdentity asked = identity();
  asked.answers = {{"positions", {1, 2, 3}}, {"decided_at", 2}};
  EXPECT_NE(asked.key(), identity().key());
  Unit unit;
  unit.loss_bits = {1, 2, 3}, unit.is_top1 = {1, 0, 1};
  store().put(asked.key(), asked, unit);
  auto back = store().find(asked.key(), 3);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->is_top1, unit.is_top1);
  unit.is_top1 = {1};
  EXPECT_ANY_THROW(store().put(asked.key(), asked, unit));
}

TEST_F(UnitStoreTest, EveryPartOfTheIdentityChangesTheKey) {
  std::set<std::string> keys = {identity().key()};
  auto add = [&](auto&& change) {
    UnitIdentity changed = identity();
    change(changed);
    EXPECT_TRUE(keys.insert(changed.key()).second);
  };
  add([](UnitIdentity& unit) { unit.weights_sha256 = "x"; });
  add([](UnitIdentity& unit) { unit.tokenizer_sha256 = "x"; });
  add([](UnitIdentity& unit) { unit.ids_sha256 = hash_of_ids({1, 2, 4}); });
  add([](UnitIdentity& unit) { unit.dtype = "bf16"; });
  add([](UnitIdentity& unit) { unit.scored = 2; });
  add([](UnitIdentity& unit) { unit.row["exact_last"] = 5; });
  add([](UnitIdentity& unit) { unit.perturb = {{"repeat", 0}}; });
  add([](UnitIdentity& unit) { unit.perturb = {{"repeat", 1}}; });
  EXPECT_EQ(identity().key(), identity().key());
}

TEST_F(UnitStoreTest, RefusesAFolderThatCannotBe) {
  std::ofstream(folder_) << "a file";
  EXPECT_THROW(store(), InputError);
}

TEST_F(UnitStoreTest, RefusesAUnitThatDoesNotFit) {
  UnitIdentity other = identity();
  other.scored = 4;
  EXPECT_THROW(store().put(other.key(), other, example()), Failure);
}

}  // namespace kvcost
