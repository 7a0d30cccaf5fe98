#include "src/harness/version.h"

#include <unistd.h>

#include <fstream>

#include "commit.h"

namespace kvcost {

std::string program_version() { return KVCOST_VERSION; }
std::string program_commit() { return KVCOST_COMMIT; }

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace kvcost
