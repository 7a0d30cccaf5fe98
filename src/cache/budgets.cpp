#include "src/cache/budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/cache/registry.h"

namespace kvcost {

Budgets::Budgets(Knobs& knobs) : capacity_(knobs.integer("capacity", 1, kNever)) {
  if (knobs.choice("budgets", {"even", "pyramid"}, "even") == "even") return;
  floor_ = knobs.integer("floor", 0, capacity_ - 1, 0);
  beta_ = knobs.number("beta", 1, 1e6, 20);
  if (least() < 1) {
    knobs.refuse("beta",
                 fmt::format("at most {} (20 if not given), or the last layer has no token", capacity_));
  }
}

std::vector<int64_t> Budgets::of(int layers) const {
  const double mean = static_cast<double>(capacity_ - floor_), last = mean / beta_;
  std::vector<int64_t> out;
  std::vector<double> rest;
  for (int l = 0; l < layers; ++l) {
    const double from_end = layers == 1 ? 0.5 : 1 - static_cast<double>(l) / (layers - 1);
    const double share = last + from_end * 2 * (mean - last), whole = std::floor(share);
    out.push_back(floor_ + static_cast<int64_t>(whole));
    rest.push_back(share - whole);
  }
  int64_t missing = layers * capacity_ - std::accumulate(out.begin(), out.end(), int64_t{0});
  std::vector<int> order(out.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rest[a] > rest[b]; });
  for (int l : order) out[l] += missing-- > 0 ? 1 : 0;
  for (int64_t& tokens : out) tokens = std::min<int64_t>(tokens, kNever);
  return out;
}

int64_t Budgets::least() const {
  return floor_ + static_cast<int64_t>(std::floor(static_cast<double>(capacity_ - floor_) / beta_));
}

int64_t Budgets::most() const {
  return std::min<int64_t>(kNever, 2 * capacity_ - floor_ - (least() - floor_));
}

std::vector<KnobHelp> Budgets::help() {
  return {{"budgets", "-", "of layers: even, or pyramid: more to the first, less to the last (even)"},
          {"beta", "-", "pyramid: the last layer has 1 / beta of the mean (20)"},
          {"floor", "tokens", "pyramid: what every layer has beforehand (0); SnapKV's authors: observe"}};
}

}  // namespace kvcost
