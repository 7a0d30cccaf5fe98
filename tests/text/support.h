#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/text/tokenizer.h"

namespace kvcost {

inline nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(read_text(std::string(KVCOST_SOURCE_DIR "/tests/text/data/") + name));
}

/// The texts of hard_cases.json, to which the other goldens' lists of ids belong, in order.
inline const std::vector<std::string>& hard_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> list;
    const nlohmann::json file = golden("hard_cases.json");
    for (const auto& item : file["cases"]) list.push_back(item["text"]);
    return list;
  }();
  return texts;
}

/// All of hard_texts() give the ids of `ids`; null where two segmentations are equally good.
inline void expect_golden(const Tokenizer& tokenizer, const nlohmann::json& ids, bool special = false) {
  ASSERT_EQ(ids.size(), hard_texts().size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].is_null()) continue;
    EXPECT_EQ(tokenizer.encode(hard_texts()[i], special), ids[i].get<std::vector<int32_t>>())
        << hard_texts()[i];
  }
}

/// Runs `action`, which must throw InputError, and returns the message: one line.
template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    std::string message = error.what();
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    return message;
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

}  // namespace kvcost
