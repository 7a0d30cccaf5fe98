#pragma once
#include <fmt/format.h>

#include <string>

#include "src/base/error.h"
#include "src/report/table.h"

namespace kvcost {

/// Of --format. InputError with the nearest name.
inline TableFormat table_format_of(const std::string& name) {
  if (name == "text") return TableFormat::text;
  if (name == "markdown") return TableFormat::markdown;
  if (name == "csv") return TableFormat::csv;
  if (name == "json") return TableFormat::json;
  const std::string valid[] = {"text", "markdown", "csv", "json"};
  throw InputError(fmt::format("--format: unknown '{}'{}", name, hint(name, valid)));
}

}  // namespace kvcost
