// Runs a shell command and tells what came of it.
#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace kvcost {

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< stdout; stderr too if the command sends it there
};

inline Outcome run_command(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), n);
  int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace kvcost
