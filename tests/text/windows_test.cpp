#include "src/text/windows.h"

#include <unistd.h>

#include <fstream>
#include <numeric>

#include "tests/text/support.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

/// One id for each byte; BOS if given.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(std::optional<int32_t> bos = {}) : bos_(bos) {}
  std::vector<int32_t> encode(std::string_view text, bool special) const override {
    if (text.starts_with("bad")) throw InputError("bad text");
    std::vector<int32_t> ids;
    for (unsigned char c : text) ids.push_back(special ? c + 1 : c);
    return ids;
  }
  std::optional<int32_t> default_bos() const override { return bos_; }
  int64_t size() const override { return 257; }
  std::string describe() const override { return "bytes"; }
  std::string hash() const override { return ""; }

 private:
  std::optional<int32_t> bos_;
};

class Windows : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("kvcost_windows_" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "inner");
    write("b.txt", "bcd");
    write("a.txt", "xyzw!");
    write("ids.json", "[1, 2, 300]");
    write(".hidden", "never");
    write("inner/c.txt", "not listed");
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, std::string_view content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  Corpus read(const std::vector<fs::path>& paths, std::optional<int32_t> bos = {}, int64_t vocabulary = 400,
              bool special = false) {
    return read_corpus(paths, ByteTokenizer(bos), vocabulary, special);
  }
  fs::path folder_;
};

Corpus corpus_of(const std::vector<int>& lengths) {
  Corpus corpus;
  int32_t next = 0;
  for (int length : lengths) {
    Document document{"d", std::vector<int32_t>(size_t(length))};
    std::iota(document.ids.begin(), document.ids.end(), next);
    next += length;
    corpus.documents.push_back(document);
  }
  return corpus;
}

}  // namespace

TEST_F(Windows, AFolderStandsForItsFilesInNameOrder) {
  Corpus corpus = read({folder_});
  ASSERT_EQ(corpus.documents.size(), 3u);
  EXPECT_EQ(corpus.documents[0].ids, (std::vector<int32_t>{'x', 'y', 'z', 'w', '!'}));
  EXPECT_EQ(corpus.documents[1].ids, (std::vector<int32_t>{'b', 'c', 'd'}));
  EXPECT_EQ(corpus.documents[2].ids, (std::vector<int32_t>{1, 2, 300}));
  EXPECT_EQ(corpus.bos, std::nullopt);
}

TEST_F(Windows, AListKeepsItsOrder) {
  Corpus corpus = read({folder_ / "b.txt", folder_ / "a.txt"});
  ASSERT_EQ(corpus.documents.size(), 2u);
  EXPECT_EQ(corpus.documents[0].name, (folder_ / "b.txt").string());
  EXPECT_EQ(read({folder_ / "b.txt"}, {}, 400, true).documents[0].ids, (std::vector<int32_t>{'c', 'd', 'e'}));
}

TEST_F(Windows, BosStandsBeforeEachDocumentOfText) {
  Corpus corpus = read({folder_}, 256);
  EXPECT_EQ(corpus.bos, 256);
  EXPECT_EQ(corpus.documents[1].ids, (std::vector<int32_t>{256, 'b', 'c', 'd'}));
  EXPECT_EQ(corpus.documents[2].ids, (std::vector<int32_t>{1, 2, 300}));
}

TEST_F(Windows, TheHashSeesBytesAndBoundaries) {
  EXPECT_EQ(read({folder_ / "b.txt"}).hash, sha256("bcd"));
  std::string two = read({folder_ / "a.txt", folder_ / "b.txt"}).hash;
  EXPECT_NE(two, read({folder_ / "b.txt", folder_ / "a.txt"}).hash);
  EXPECT_NE(two, read({write("joined.txt", "xyzw!bcd")}).hash);
  EXPECT_NE(read({write("same.txt", "[1]")}).hash, read({write("same.json", "[1]")}).hash);
}

TEST_F(Windows, RefusalsNameTheFile) {
  auto refused = [&](const std::vector<fs::path>& paths, int64_t vocabulary = 400) {
    return refusal([&] { read(paths, {}, vocabulary); });
  };
  EXPECT_NE(refused({folder_ / "none.txt"}).find("none.txt"), std::string::npos);
  EXPECT_NE(refused({write("bad.txt", "bad")}).find("bad.txt: bad text"), std::string::npos);
  EXPECT_NE(refused({folder_ / "b.txt"}, 100).find("id 100"), std::string::npos);
  EXPECT_NE(refused({folder_ / "ids.json"}, 300).find("[2]: found 300"), std::string::npos);
  fs::create_directories(folder_ / "empty");
  EXPECT_NE(refused({folder_ / "empty"}).find("empty"), std::string::npos);
  for (const char* bad : {"{}", "[", "[-1]", "[1.5]", "[\"1\"]", "[null]", "[18446744073709551615]", "7"})
    EXPECT_NE(refused({write("bad.json", bad)}).find("bad.json"), std::string::npos) << bad;
}

TEST(CutWindows, NeverCrossDocuments) {
  auto windows = cut_windows(corpus_of({7, 2, 9}), 5, 3);
  EXPECT_EQ(windows, (std::vector<std::vector<int32_t>>{
                         {0, 1, 2}, {3, 4, 5}, {9, 10, 11}, {12, 13, 14}, {15, 16, 17}}));
  EXPECT_EQ(cut_windows(corpus_of({7, 2, 9}), 3, 3).back(), (std::vector<int32_t>{9, 10, 11}));
}

TEST(CutWindows, TooLittleTextSaysHaveAndNeed) {
  std::string message = refusal([] { cut_windows(corpus_of({7, 2, 9}), 6, 3); });
  EXPECT_NE(message.find("have 5"), message.npos) << message;
  EXPECT_NE(message.find("need 6"), message.npos) << message;
  EXPECT_NE(message.find("18 tokens in 3 documents"), message.npos) << message;
  EXPECT_FALSE(refusal([] { cut_windows(corpus_of({9}), 0, 3); }).empty());
  EXPECT_FALSE(refusal([] { cut_windows(corpus_of({9}), 1, 0); }).empty());
  EXPECT_FALSE(refusal([] { cut_windows({}, 1, 1); }).empty());
}

}  // namespace kvcost
