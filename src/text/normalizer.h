#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "src/text/json_view.h"

namespace kvcost {

/// What a tokenizer does to text before cutting it: steps in order, often none.
class Normalizer {
 public:
  struct Step {
    enum class Kind { normal_form, prepend, replace } kind;
    std::string first;   ///< the normal form's name, what to prepend, or what to look for
    std::string second;  ///< what to put in its place
  };

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  /// InputError if replacing makes a text of more than 1 GiB.
  std::string apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

/// A tokenizer.json's "normalizer"; InputError naming what is not supported.
Normalizer read_normalizer(const JsonView& normalizer);

}  // namespace kvcost
