#pragma once
#include <set>
#include <string>

#include "src/harness/config/experiment.h"
#include "src/harness/config/provenance.h"

namespace kvcost {

/// SHA-256 of what a run reads.
struct InputHashes {
  std::string weights, tokenizer, text;
};

/// Of a result that this process writes now; `capabilities` of the units it is made from.
Provenance provenance_of(const Experiment& experiment, const InputHashes& inputs,
                         const std::set<std::string>& capabilities);

}  // namespace kvcost
