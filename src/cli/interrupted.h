#pragma once
#include <unistd.h>

namespace kvcost {

/// For SIGINT. Finished units are whole files, so there is nothing to save: only calls that are safe in a
/// handler.
extern "C" inline void interrupted(int) {
  constexpr char kMessage[] = "\nkvcost: interrupted; the same command goes on from here\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(130);
}

}  // namespace kvcost
