#include "src/model/formats/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/printable.h"
#include "src/model/formats/bytes.h"

namespace kvcost {
namespace {

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

/// 0 for strings, arrays and unknown types.
uint64_t value_bytes(uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    default:
      return 0;
  }
}

/// Reads forward; every length is checked against what is left before it is used.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  std::span<const std::byte> take(uint64_t size) {
    if (size > bytes_.size() - at_) {
      throw InputError(
          fmt::format("{}: needs {} bytes at byte {}, but the file has {} (damaged, or cut off?)", origin_,
                      size, at_, bytes_.size()));
    }
    auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }
  template <class T>
  T number() {
    return load<T>(take(sizeof(T)).data());
  }
  std::string_view string() {
    auto part = take(number<uint64_t>());
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& origin_;
  uint64_t at_ = 0;
};

GgufArray read_array(Cursor& in, std::string_view key, const std::string& origin) {
  GgufArray array;
  array.type = in.number<uint32_t>();
  array.count = in.number<uint64_t>();
  if (array.type == kString) {
    for (uint64_t i = 0; i < array.count; ++i) array.strings.push_back(in.string());
    return array;
  }
  uint64_t size = value_bytes(array.type);
  if (size == 0) {
    throw InputError(fmt::format("{}: '{}' is an array of {}, which is not supported", origin, printable(key),
                                 array.type == kArray ? "arrays" : fmt::format("type {}", array.type)));
  }
  if (!multiply(size, array.count, size)) {
    throw InputError(fmt::format("{}: '{}' has {} elements, more than the file holds", origin, printable(key),
                                 array.count));
  }
  array.raw = in.take(size);
  return array;
}

GgufValue read_value(Cursor& in, std::string_view key, const std::string& origin) {
  auto type = in.number<uint32_t>();
  switch (type) {
    case kU8:
      return uint64_t{in.number<uint8_t>()};
    case kI8:
      return int64_t{in.number<int8_t>()};
    case kU16:
      return uint64_t{in.number<uint16_t>()};
    case kI16:
      return int64_t{in.number<int16_t>()};
    case kU32:
      return uint64_t{in.number<uint32_t>()};
    case kI32:
      return int64_t{in.number<int32_t>()};
    case kF32:
      return static_cast<double>(in.number<float>());
    case kBool:
      return in.number<uint8_t>() != 0;
    case kString:
      return in.string();
    case kArray:
      return read_array(in, key, origin);
    case kU64:
      return in.number<uint64_t>();
    case kI64:
      return in.number<int64_t>();
    case kF64:
      return in.number<double>();
    default:
      throw InputError(fmt::format("{}: '{}' has the unknown value type {}", origin, printable(key), type));
  }
}

struct Placed {
  GgufTensor tensor;
  uint64_t offset = 0, size = 0;
};

Placed read_tensor_info(Cursor& in, const std::string& origin) {
  Placed result;
  std::string_view name = in.string();
  auto wrong = [&](const std::string& what) {
    return InputError(fmt::format("{}: tensor '{}': {}", origin, printable(name), what));
  };
  result.tensor.name = name;
  auto dims = in.number<uint32_t>();
  if (dims == 0 || dims > 4) throw wrong(fmt::format("{} dimensions, expected 1 to 4", dims));
  uint64_t numbers = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    auto size = in.number<uint64_t>();
    if (size == 0 || !multiply(numbers, size, numbers)) throw wrong(fmt::format("impossible size {}", size));
    result.tensor.shape.push_back(static_cast<int64_t>(size));
  }
  auto id = in.number<uint32_t>();
  std::optional<TensorType> type = tensor_type_of_ggml(id);
  if (!type) {
    std::string known;
    for (const TensorTypeInfo& entry : tensor_types())
      known += (known.empty() ? "" : ", ") + std::string(entry.name);
    throw wrong(
        fmt::format("tensor type {} is not supported, expected one of {}", ggml_type_name(id), known));
  }
  result.tensor.type = *type;
  const TensorTypeInfo& block = info(*type);
  auto row = static_cast<uint64_t>(result.tensor.shape[0]);
  if (row % static_cast<uint64_t>(block.block_numbers) != 0) {
    throw wrong(
        fmt::format("rows of {} numbers, {} needs a multiple of {}", row, block.name, block.block_numbers));
  }
  if (!multiply(numbers / static_cast<uint64_t>(block.block_numbers),
                static_cast<uint64_t>(block.block_bytes), result.size)) {
    throw wrong("its shape is too large");
  }
  std::reverse(result.tensor.shape.begin(), result.tensor.shape.end());
  result.offset = in.number<uint64_t>();
  return result;
}

}  // namespace

int64_t GgufTensor::numbers() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

Gguf Gguf::open(const std::filesystem::path& path) {
  auto map = std::make_shared<MappedFile>(path);
  Gguf file = parse(map->bytes(), path.string());
  file.map_ = std::move(map);
  return file;
}

Gguf Gguf::parse(std::span<const std::byte> bytes, std::string origin) {
  Gguf file;
  file.file_ = bytes;
  file.origin_ = std::move(origin);
  Cursor in(bytes, file.origin_);
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    throw InputError(fmt::format("{}: not a GGUF file (it does not start with GGUF)", file.origin_));
  }
  in.take(4);
  file.version_ = in.number<uint32_t>();
  if (file.version_ == 0x02000000 || file.version_ == 0x03000000) {
    throw InputError(fmt::format("{}: a big-endian GGUF file, expected little-endian", file.origin_));
  }
  if (file.version_ != 2 && file.version_ != 3) {
    throw InputError(fmt::format("{}: GGUF version {}, expected 2 or 3", file.origin_, file.version_));
  }
  auto tensor_count = in.number<uint64_t>(), value_count = in.number<uint64_t>();
  for (uint64_t i = 0; i < value_count; ++i) {
    std::string_view key = in.string();
    GgufValue value = read_value(in, key, file.origin_);
    if (!file.metadata_.emplace(key, std::move(value)).second) {
      throw InputError(fmt::format("{}: '{}' is set twice", file.origin_, printable(key)));
    }
  }
  std::vector<Placed> placed;
  for (uint64_t i = 0; i < tensor_count; ++i) placed.push_back(read_tensor_info(in, file.origin_));

  int64_t alignment = file.integer("general.alignment").value_or(32);
  if (alignment <= 0 || alignment > (1 << 20) || (alignment & (alignment - 1)) != 0) {
    throw InputError(
        fmt::format("{}: general.alignment is {}, expected a power of two", file.origin_, alignment));
  }
  auto step = static_cast<uint64_t>(alignment);
  uint64_t start = (in.at() + step - 1) / step * step;
  uint64_t data_size = start < bytes.size() ? bytes.size() - start : 0;
  for (const Placed& entry : placed) {
    auto wrong = [&](const std::string& what) {
      return InputError(fmt::format("{}: tensor '{}': {}", file.origin_, printable(entry.tensor.name), what));
    };
    if (entry.offset % step != 0) {
      throw wrong(fmt::format("offset {} is not a multiple of {}", entry.offset, step));
    }
    if (entry.offset > data_size || entry.size > data_size - entry.offset) {
      throw wrong(fmt::format("{} bytes at {}, but the file holds {} bytes of data (cut off?)", entry.size,
                              entry.offset, data_size));
    }
  }
  std::vector<const Placed*> ordered;
  for (const Placed& entry : placed) ordered.push_back(&entry);
  std::stable_sort(ordered.begin(), ordered.end(), [](const Placed* a, const Placed* b) {
    return std::pair(a->offset, a->size) < std::pair(b->offset, b->size);
  });
  for (size_t i = 1; i < ordered.size(); ++i) {
    const Placed &before = *ordered[i - 1], &after = *ordered[i];
    if (before.offset + before.size > after.offset) {
      throw InputError(fmt::format("{}: tensors '{}' and '{}' overlap", file.origin_,
                                   printable(before.tensor.name), printable(after.tensor.name)));
    }
  }
  for (Placed& entry : placed) {
    if (entry.size > 0) entry.tensor.bytes = bytes.subspan(start + entry.offset, entry.size);
    if (!file.index_.emplace(entry.tensor.name, file.tensors_.size()).second) {
      throw InputError(
          fmt::format("{}: tensor '{}' appears twice", file.origin_, printable(entry.tensor.name)));
    }
    file.tensors_.push_back(std::move(entry.tensor));
  }
  return file;
}

const GgufValue* Gguf::value(std::string_view key) const {
  auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

InputError Gguf::wrong_kind(std::string_view key, std::string_view expected) const {
  static constexpr std::string_view kKinds[] = {"an integer", "an integer", "a number",
                                                "a boolean",  "a string",   "an array"};
  return InputError(
      fmt::format("{}: '{}' is {}, expected {}", origin_, key, kKinds[value(key)->index()], expected));
}

std::optional<int64_t> Gguf::integer(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(found)) return *number;
  const auto* number = std::get_if<uint64_t>(found);
  if (number == nullptr) throw wrong_kind(key, "an integer");
  if (*number > static_cast<uint64_t>(INT64_MAX)) {
    throw InputError(fmt::format("{}: '{}' is {}, too large", origin_, key, *number));
  }
  return static_cast<int64_t>(*number);
}

std::optional<double> Gguf::number(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(found)) return *number;
  throw wrong_kind(key, "a floating-point number");
}

std::optional<bool> Gguf::boolean(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(found)) return *flag;
  throw wrong_kind(key, "a boolean");
}

std::optional<std::string> Gguf::string(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(found)) return std::string(*text);
  throw wrong_kind(key, "a string");
}

std::optional<std::vector<std::string>> Gguf::strings(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(found);
  if (array == nullptr || array->type != kString) throw wrong_kind(key, "an array of strings");
  return std::vector<std::string>(array->strings.begin(), array->strings.end());
}

std::optional<std::vector<float>> Gguf::floats(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(found);
  if (array == nullptr || array->type != kF32) throw wrong_kind(key, "an array of f32");
  std::vector<float> out(array->count);
  if (!out.empty()) std::memcpy(out.data(), array->raw.data(), array->raw.size());
  return out;
}

std::optional<std::vector<int32_t>> Gguf::integers(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(found);
  if (array == nullptr || (array->type != kI32 && array->type != kU32)) {
    throw wrong_kind(key, "an array of i32");
  }
  std::vector<int32_t> out(array->count);
  if (!out.empty()) std::memcpy(out.data(), array->raw.data(), array->raw.size());
  return out;
}

const GgufTensor* Gguf::find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void Gguf::release() const {
  if (map_) map_->release();
}

}  // namespace kvcost
