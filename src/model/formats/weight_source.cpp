#include "src/model/formats/weight_source.h"

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/model/formats/sources.h"

namespace kvcost {

int64_t TensorInfo::numbers() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void check_tensor(const ExpectedTensor& expected, const std::vector<int64_t>& found,
                  std::string_view stored_name, const std::string& origin) {
  if (found != expected.shape) {
    throw InputError(fmt::format("{}: tensor '{}' is {}, the config needs {}", origin, stored_name,
                                 shape_text(found), shape_text(expected.shape)));
  }
}

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_hf_folder(path);
  if (!std::filesystem::exists(path, ignored)) {
    throw InputError(fmt::format("{}: no such model, expected a folder or a .gguf file", path.string()));
  }
  if (path.extension() == ".safetensors" || path.extension() == ".json") {
    throw InputError(fmt::format("{}: give the folder that holds it, with its config.json", path.string()));
  }
  return open_gguf_weights(Gguf::open(path));
}

}  // namespace kvcost
