#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kvcost {

/// A read-only memory map of a whole file; empty files give an empty span. Throws InputError naming the path.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Lets the kernel drop the pages already read; they come back from the file if read again.
  void release() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole file as text, at most `limit` bytes; InputError if it is larger or cannot be read.
std::string read_text(const std::filesystem::path& path, size_t limit = size_t{1} << 30);

/// Writes to a temporary name beside `path`, syncs, renames: a reader sees the old file or the new one whole.
void write_atomically(const std::filesystem::path& path, std::string_view content);

/// Lower-case hexadecimal SHA-256.
std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

}  // namespace kvcost
