#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/model/formats/tensor_type.h"

namespace kvcost {

/// An array in the metadata: either strings or fixed-size numbers. Views into the file.
struct GgufArray {
  /// gguf's value type: 0-7 u8 i8 u16 i16 u32 i32 f32 bool, 8 string, 10-12 u64 i64 f64.
  uint32_t type = 0;
  uint64_t count = 0;
  std::vector<std::string_view> strings;
  std::span<const std::byte> raw;
};

/// Integers of every width are widened; f32 and f64 are double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string name;
  TensorType type = TensorType::F32;
  /// Rows first, the reverse of the file's order.
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  int64_t numbers() const;
};

/// A GGUF file (version 2 or 3) whose header has been checked whole: every tensor has a decodable type, lies
/// inside the file and shares no byte with another. Views into `bytes`. Const calls are thread-safe.
class Gguf {
 public:
  /// Memory-maps the file. InputError, one line, naming the path.
  static Gguf open(const std::filesystem::path& path);
  /// `bytes` must outlive the result; `origin` names them in errors.
  static Gguf parse(std::span<const std::byte> bytes, std::string origin);

  uint32_t version() const { return version_; }
  const std::string& origin() const { return origin_; }
  std::span<const std::byte> file() const { return file_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  bool has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }

  // Typed access: nullopt if the key is absent, InputError naming it if it is of another kind.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  std::optional<std::vector<std::string>> strings(std::string_view key) const;
  std::optional<std::vector<float>> floats(std::string_view key) const;
  /// i32 or u32 elements.
  std::optional<std::vector<int32_t>> integers(std::string_view key) const;

  /// In the file's order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;
  /// Drops mapped pages already read.
  void release() const;

 private:
  const GgufValue* value(std::string_view key) const;
  InputError wrong_kind(std::string_view key, std::string_view expected) const;

  std::shared_ptr<MappedFile> map_;
  std::span<const std::byte> file_;
  std::string origin_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace kvcost
