#include "src/cache/knobs.h"

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace kvcost {
namespace {

std::string error_of(const char* json, auto&& use) {
  nlohmann::json object = nlohmann::json::parse(json);
  try {
    Knobs knobs(object, "rows[0].evict");
    use(knobs);
    knobs.done();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Knobs, RefusesByName) {
  auto capacity = [](Knobs& knobs) { knobs.integer("capacity", 1, 512); };
  EXPECT_EQ(error_of(R"({"capacity": 3})", capacity), "");
  EXPECT_EQ(error_of(R"({"capacity": 0})", capacity),
            "rows[0].evict.capacity: found 0, expected an integer from 1 to 512");
  EXPECT_EQ(error_of(R"({"capacity": 18446744073709551615})", capacity),
            "rows[0].evict.capacity: found 18446744073709551615, expected an integer from 1 to 512");
  EXPECT_EQ(error_of("{}", capacity),
            "rows[0].evict.capacity: found nothing, expected an integer from 1 to 512");
  EXPECT_EQ(error_of(R"({"capacity": 3, "capasity": 4})", capacity),
            "rows[0].evict.capasity: unknown setting, did you mean 'capacity'?");
}

}  // namespace kvcost
