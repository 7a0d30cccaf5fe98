#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/formats/gguf.h"
#include "src/model/formats/read_config.h"
#include "src/model/formats/weight_source.h"

namespace kvcost {

/// What open_weights() chooses from; both check every tensor first.
std::unique_ptr<WeightSource> open_hf_folder(const std::filesystem::path& folder);
std::unique_ptr<WeightSource> open_gguf_weights(Gguf file);

/// "[576, 1536]"
std::string shape_text(const std::vector<int64_t>& shape);

/// InputError naming the tensor if its shape is not what the config needs.
void check_tensor(const ExpectedTensor& expected, const std::vector<int64_t>& found,
                  std::string_view stored_name, const std::string& origin);

}  // namespace kvcost
