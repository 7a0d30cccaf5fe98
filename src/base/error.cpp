#include "src/base/error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kvcost {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view found, std::span<const std::string> valid) {
  if (found.size() > 200) return {};
  std::string best;
  size_t best_distance = std::max<size_t>(2, found.size() / 2) + 1;
  for (const std::string& name : valid) {
    size_t distance = edit_distance(found, name);
    if (distance < best_distance) best_distance = distance, best = name;
  }
  return best;
}

std::string hint(std::string_view found, std::span<const std::string> valid) {
  std::string close = nearest(found, valid);
  if (!close.empty()) return ", did you mean '" + close + "'?";
  std::string all;
  for (const std::string& name : valid) all += (all.empty() ? "" : ", ") + name;
  return ", expected one of " + all;
}

}  // namespace kvcost
