#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/harness/runner.h"

namespace kvcost {

/// On a terminal: a table on stderr that is redrawn as units finish, with running means and the time left.
/// Elsewhere: one plain line on stderr for each finished unit.
std::unique_ptr<RunProgress> make_progress(bool terminal);

}  // namespace kvcost
