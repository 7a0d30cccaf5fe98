#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/error.h"

namespace kvcost {

/// `action` must throw an InputError of one line that holds every part.
template <class Action>
void expect_error(Action action, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "no error, expected one naming '" << parts.front() << "'";
  } catch (const InputError& error) {
    std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
    }
  }
}

}  // namespace kvcost
