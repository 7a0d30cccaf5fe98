#include "src/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/error.h"

namespace kvcost {

MappedFile::MappedFile(const std::filesystem::path& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw InputError(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw InputError(fmt::format("{}: not a regular file", path.string()));
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ > 0) {
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    if (map == MAP_FAILED) {
      ::close(fd);
      throw InputError(fmt::format("{}: cannot map: {}", path.string(), std::strerror(error)));
    }
    data_ = static_cast<const std::byte*>(map);
  }
  ::close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

std::string read_text(const std::filesystem::path& path, size_t limit) {
  MappedFile file(path);
  if (file.bytes().size() > limit) {
    throw InputError(
        fmt::format("{}: {} bytes, at most {} expected", path.string(), file.bytes().size(), limit));
  }
  return std::string(file.text());
}

void write_atomically(const std::filesystem::path& path, std::string_view content) {
  std::string temporary = path.string() + ".XXXXXX";
  int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) throw Failure(fmt::format("{}: cannot create: {}", temporary, std::strerror(errno)));
  bool good = ::fchmod(fd, 0644) == 0;
  while (good && !content.empty()) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) content.remove_prefix(static_cast<size_t>(n));
  }
  good = good && ::fsync(fd) == 0;
  int error = errno;
  ::close(fd);
  if (!good || ::rename(temporary.c_str(), path.c_str()) != 0) {
    if (good) error = errno;
    ::unlink(temporary.c_str());
    throw Failure(fmt::format("{}: cannot write: {}", path.string(), std::strerror(error)));
  }
}

std::string sha256(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1) {
    throw Failure("SHA-256 failed");
  }
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace kvcost
