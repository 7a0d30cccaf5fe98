#include "src/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/base/error.h"

namespace kvcost {

TEST(File, WritesAtomicallyAndReadsBack) {
  auto dir = std::filesystem::path(testing::TempDir()) / "kvcost_file_test";
  std::filesystem::create_directories(dir);
  write_atomically(dir / "a.txt", "first");
  write_atomically(dir / "a.txt", "second");
  EXPECT_EQ(read_text(dir / "a.txt"), "second");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir)) ++files;
  EXPECT_EQ(files, 1) << "no temporary file may stay behind";
  EXPECT_THROW(read_text(dir / "a.txt", 3), InputError);
  EXPECT_THROW(MappedFile(dir / "absent"), InputError);
  EXPECT_THROW(MappedFile{dir}, InputError);
}

TEST(File, Sha256MatchesThePublishedVector) {
  EXPECT_EQ(sha256(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace kvcost
