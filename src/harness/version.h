#pragma once
#include <string>

namespace kvcost {

/// "0.1.0"
std::string program_version();
/// The git commit this was built from, "-dirty" after it if files had changed; "unknown" outside a
/// repository.
std::string program_commit();
std::string host_name();
/// "AMD EPYC 7763", as the kernel names it.
std::string processor_name();

}  // namespace kvcost
