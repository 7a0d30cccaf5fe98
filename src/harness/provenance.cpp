#include "src/harness/provenance.h"

#include <ATen/Parallel.h>

#include "src/harness/version.h"

namespace kvcost {

Provenance provenance_of(const Experiment& experiment, const InputHashes& inputs,
                         const std::set<std::string>& capabilities) {
  Provenance made;
  made.name = experiment.name;
  made.config = experiment.config;
  made.model = experiment.model;
  made.program_version = program_version();
  made.commit = program_commit();
  made.host = host_name();
  made.processor = processor_name();
  made.dtype = experiment.dtype;
  made.capabilities.assign(capabilities.begin(), capabilities.end());
  made.threads = at::get_num_threads();
  made.weights_sha256 = inputs.weights;
  made.tokenizer_sha256 = inputs.tokenizer;
  made.text_sha256 = inputs.text;
  return made;
}

}  // namespace kvcost
