#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "src/model/formats/gguf.h"
#include "src/model/formats/model_config.h"

namespace kvcost {

/// From a Hugging Face config.json of either transformers generation. `origin` names the text in errors.
/// InputError, naming the key, if a setting that changes numbers is missing, unknown or not supported.
ModelConfig parse_hf_config(std::string_view json, const std::string& origin);

/// From the metadata and tensor list of a GGUF file; errors as above.
ModelConfig gguf_config(const Gguf& file);

/// InputError if a size is impossible: what both of the above end with.
void check_config(const ModelConfig& config, const std::string& origin);

/// One tensor the decoder reads, under its Hugging Face name.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// Every tensor the config calls for, in the order a forward pass needs them.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace kvcost
