#pragma once
#include <cstdint>
#include <vector>

#include "src/cache/knobs.h"

namespace kvcost {

struct KnobHelp;

/// How a row's capacity is shared out among a model's layers. Read from the knobs "capacity", "budgets" and,
/// of a pyramid, "beta" and "floor":
/// - "even": every layer has the capacity.
/// - "pyramid" (Cai et al. 2024, PyramidKV, arXiv 2406.02069): every layer has `floor` tokens; of the rest,
///   A = capacity - floor on average, the last layer has A / beta, the first 2 A - A / beta, and those
///   between stand on the line between them. Fractions are rounded, the largest up, so that the mean over
///   layers is the capacity exactly. A layer may get more than there are tokens; it then keeps all, and the
///   mean falls.
class Budgets {
 public:
  explicit Budgets(Knobs& knobs);
  bool even() const { return beta_ == 1; }
  /// Capacity of each layer, from the first on. Their sum is layers * capacity.
  std::vector<int64_t> of(int layers) const;
  /// Bounds of what a layer gets in models of any number of layers.
  int64_t least() const, most() const;

  static std::vector<KnobHelp> help();

 private:
  int64_t capacity_, floor_ = 0;
  double beta_ = 1;
};

}  // namespace kvcost
