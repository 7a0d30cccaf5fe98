#include "src/model/formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/model/formats/bytes.h"
#include "src/model/formats/read_json.h"

namespace kvcost {
namespace {

using Json = nlohmann::json;

/// As the reference implementation.
constexpr uint64_t kLargestHeader = 100'000'000;

constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kDtypes{{{"F64", 8},
                                                                         {"I64", 8},
                                                                         {"U64", 8},
                                                                         {"F32", 4},
                                                                         {"I32", 4},
                                                                         {"U32", 4},
                                                                         {"F16", 2},
                                                                         {"BF16", 2},
                                                                         {"I16", 2},
                                                                         {"U16", 2},
                                                                         {"I8", 1},
                                                                         {"U8", 1},
                                                                         {"BOOL", 1},
                                                                         {"F8_E4M3", 1},
                                                                         {"F8_E5M2", 1}}};

/// 0 if unknown.
uint64_t dtype_bytes(std::string_view dtype) {
  for (const auto& [name, size] : kDtypes) {
    if (name == dtype) return size;
  }
  return 0;
}

SafetensorsTensor parse_tensor(const std::string& name, const Json& entry, uint64_t data_start,
                               uint64_t data_size, const std::string& origin) {
  auto wrong = [&](const std::string& what) {
    return InputError(fmt::format("{}: tensor '{}': {}", origin, printable(name), what));
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2 ||
      !entry["data_offsets"][0].is_number_unsigned() || !entry["data_offsets"][1].is_number_unsigned()) {
    throw wrong("expected a dtype, a shape and two data_offsets");
  }
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = entry["dtype"].get<std::string>();
  uint64_t bytes = dtype_bytes(tensor.dtype);
  if (bytes == 0) throw wrong(fmt::format("unknown dtype '{}'", printable(tensor.dtype)));
  for (const Json& size : entry["shape"]) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX) ||
        !multiply(bytes, size.get<uint64_t>(), bytes)) {
      throw wrong("a size in its shape is not a usable number");
    }
    tensor.shape.push_back(size.get<int64_t>());
  }
  auto begin = entry["data_offsets"][0].get<uint64_t>(), end = entry["data_offsets"][1].get<uint64_t>();
  if (begin > end || end > data_size) {
    throw wrong(
        fmt::format("bytes {} to {}, but the file holds {} bytes of data (cut off?)", begin, end, data_size));
  }
  if (end - begin != bytes) {
    throw wrong(fmt::format("{} bytes, but its shape and dtype need {}", end - begin, bytes));
  }
  tensor.begin = data_start + begin;
  tensor.end = data_start + end;
  return tensor;
}

}  // namespace

int64_t SafetensorsTensor::numbers() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto map = std::make_shared<MappedFile>(path);
  SafetensorsFile file = parse(map->bytes(), path.string());
  file.map_ = std::move(map);
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string origin) {
  if (bytes.size() < 8) {
    throw InputError(
        fmt::format("{}: {} bytes, too short for a safetensors file (cut off?)", origin, bytes.size()));
  }
  auto header_size = load<uint64_t>(bytes.data());
  if (header_size > kLargestHeader || header_size > bytes.size() - 8) {
    throw InputError(fmt::format("{}: a header of {} bytes in a file of {} (not safetensors, or cut off?)",
                                 origin, header_size, bytes.size()));
  }
  SafetensorsFile file;
  file.file_ = bytes;
  file.origin_ = std::move(origin);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  Json header = read_json(text, file.origin_ + ": header");
  if (!header.is_object()) throw InputError(fmt::format("{}: the header is not a JSON object", file.origin_));
  uint64_t data_start = 8 + header_size, data_size = bytes.size() - data_start;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      file.tensors_.emplace(name, parse_tensor(name, entry, data_start, data_size, file.origin_));
      continue;
    }
    if (!entry.is_object()) throw InputError(file.origin_ + ": __metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        throw InputError(fmt::format("{}: __metadata__ '{}' is not a string", file.origin_, printable(key)));
      }
      file.metadata_[key] = value.get<std::string>();
    }
  }

  std::vector<const SafetensorsTensor*> ordered;
  for (const auto& [name, tensor] : file.tensors_) ordered.push_back(&tensor);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t at = data_start;
  for (const SafetensorsTensor* tensor : ordered) {
    if (tensor->begin != at) {
      throw InputError(fmt::format("{}: tensor '{}': starts at byte {} of the data, expected {} ({})",
                                   file.origin_, printable(tensor->name), tensor->begin - data_start,
                                   at - data_start, tensor->begin < at ? "two tensors overlap" : "a hole"));
    }
    at = tensor->end;
    file.names_.push_back(tensor->name);
  }
  if (at != bytes.size()) {
    throw InputError(
        fmt::format("{}: {} bytes after the last tensor, expected none", file.origin_, bytes.size() - at));
  }
  return file;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const SafetensorsTensor& SafetensorsFile::tensor(std::string_view name) const {
  if (const SafetensorsTensor* found = find(name)) return *found;
  std::string close = nearest(name, names_);
  throw InputError(fmt::format("{}: no tensor '{}'{}", origin_, name,
                               close.empty() ? "" : ", did you mean '" + printable(close) + "'?"));
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const SafetensorsTensor& found = tensor(name);
  return file_.subspan(found.begin, found.end - found.begin);
}

const SafetensorsTensor& SafetensorsFile::require_dtype(std::string_view name, std::string_view dtype) const {
  const SafetensorsTensor& found = tensor(name);
  if (found.dtype != dtype) {
    throw InputError(fmt::format("{}: tensor '{}' is {}, expected {}", origin_, name, found.dtype, dtype));
  }
  return found;
}

void SafetensorsFile::release() const {
  if (map_) map_->release();
}

void SafetensorsWriter::add_bytes(std::string name, std::string dtype, std::vector<int64_t> shape,
                                  std::span<const std::byte> bytes) {
  uint64_t need = dtype_bytes(dtype);
  if (need == 0) throw Failure(fmt::format("safetensors: unknown dtype '{}'", dtype));
  for (int64_t size : shape) {
    if (size < 0 || !multiply(need, static_cast<uint64_t>(size), need)) {
      throw Failure(fmt::format("safetensors: tensor '{}' has an impossible shape", name));
    }
  }
  if (need != bytes.size()) {
    throw Failure(fmt::format("safetensors: tensor '{}' is given {} bytes, its shape needs {}", name,
                              bytes.size(), need));
  }
  for (const Entry& entry : entries_) {
    if (entry.name == name) throw Failure(fmt::format("safetensors: tensor '{}' added twice", name));
  }
  entries_.push_back({std::move(name), std::move(dtype), std::move(shape),
                      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
}

std::string SafetensorsWriter::content() const {
  // Widest dtypes first keeps every tensor aligned to its own size.
  std::vector<const Entry*> ordered;
  for (const Entry& entry : entries_) ordered.push_back(&entry);
  std::stable_sort(ordered.begin(), ordered.end(), [](const Entry* a, const Entry* b) {
    return dtype_bytes(a->dtype) > dtype_bytes(b->dtype);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  uint64_t at = 0;
  for (const Entry* entry : ordered) {
    header[entry->name] = {
        {"dtype", entry->dtype}, {"shape", entry->shape}, {"data_offsets", {at, at + entry->bytes.size()}}};
    at += entry->bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  out.reserve(8 + size + at);
  out += text;
  for (const Entry* entry : ordered) out += entry->bytes;
  return out;
}

}  // namespace kvcost
