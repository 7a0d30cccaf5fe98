#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "src/base/file.h"

namespace kvcost {

/// One tensor as the header describes it.
struct SafetensorsTensor {
  std::string name;
  /// "F32", "BF16", "I64"...
  std::string dtype;
  std::vector<int64_t> shape;
  /// Bytes from the start of the file.
  uint64_t begin = 0, end = 0;
  int64_t numbers() const;
};

/// "F32" for float, "F64", "I32", "I64", "U8".
template <class T>
constexpr std::string_view safetensors_dtype() {
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, double>) return "F64";
  if constexpr (std::is_same_v<T, int32_t>) return "I32";
  if constexpr (std::is_same_v<T, int64_t>) return "I64";
  if constexpr (std::is_same_v<T, uint8_t>) return "U8";
}

/// A read file. Its header is checked whole when opened: every tensor lies inside the file, has as many bytes
/// as its shape and dtype need, and shares none with another. Const calls are thread-safe.
class SafetensorsFile {
 public:
  /// Memory-maps the file. InputError, one line, naming the path.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// `bytes` must outlive the result; `origin` names them in errors.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string origin);

  /// In the order of their bytes.
  const std::vector<std::string>& names() const { return names_; }
  /// nullptr if there is none.
  const SafetensorsTensor* find(std::string_view name) const;
  /// InputError naming the file if there is no such tensor, as for the calls below.
  const SafetensorsTensor& tensor(std::string_view name) const;
  std::span<const std::byte> bytes(std::string_view name) const;
  /// A copy; the stored dtype must be T's.
  template <class T>
  std::vector<T> numbers(std::string_view name) const {
    std::vector<T> out(static_cast<size_t>(require_dtype(name, safetensors_dtype<T>()).numbers()));
    std::span<const std::byte> from = bytes(name);
    if (!from.empty()) std::memcpy(out.data(), from.data(), from.size());
    return out;
  }
  /// The header's "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& origin() const { return origin_; }
  /// The whole file.
  std::span<const std::byte> file() const { return file_; }
  /// Drops mapped pages already read.
  void release() const;

 private:
  const SafetensorsTensor& require_dtype(std::string_view name, std::string_view dtype) const;

  std::shared_ptr<MappedFile> map_;
  std::span<const std::byte> file_;
  std::string origin_;
  std::vector<std::string> names_;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Collects tensors and metadata; the same calls always give the same bytes.
class SafetensorsWriter {
 public:
  void set_metadata(const std::string& key, std::string value) { metadata_[key] = std::move(value); }
  /// Copies. `shape` must have as many numbers as `values`, and `name` must be new.
  template <class T>
  void add(std::string name, std::vector<int64_t> shape, std::span<const T> values) {
    add_bytes(std::move(name), std::string(safetensors_dtype<T>()), std::move(shape), std::as_bytes(values));
  }
  template <class T>
  void add(std::string name, const std::vector<T>& values) {
    add(std::move(name), {static_cast<int64_t>(values.size())}, std::span<const T>(values));
  }
  /// Any dtype of the format, as stored: "BF16" from two bytes a number.
  void add_bytes(std::string name, std::string dtype, std::vector<int64_t> shape,
                 std::span<const std::byte> bytes);
  /// The file's content.
  std::string content() const;
  /// A reader sees the old file or the new one whole.
  void write(const std::filesystem::path& path) const { write_atomically(path, content()); }

 private:
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace kvcost
