#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/text/tokenizer.h"

namespace kvcost {

/// One document's token ids. A corpus is a list of documents in a fixed order.
struct Document {
  std::string name;
  std::vector<int32_t> ids;
};

struct Corpus {
  std::vector<Document> documents;
  /// SHA-256 of the file if it is one text, else of the files' SHA-256s in order, so that boundaries count
  /// too.
  std::string hash;
  /// The BOS put before each document, if the tokenizer adds one by default.
  std::optional<int32_t> bos;
};

/// `paths`: files, or folders standing for their regular files in name order, hidden ones left out.
/// InputError for a folder without files.
std::vector<std::filesystem::path> text_files(const std::vector<std::filesystem::path>& paths);

/// `paths`: as text_files() takes them. A .json file is a list of ids (all below `vocabulary`), taken as it
/// is; anything else is UTF-8 text, before which BOS is put if the tokenizer adds one by default. Each file
/// is one document.
Corpus read_corpus(const std::vector<std::filesystem::path>& paths, const Tokenizer& tokenizer,
                   int64_t vocabulary, bool special_tokens);

/// Consecutive disjoint windows that never cross documents: each document in order gives
/// floor(tokens / length) of them, until `count`. InputError with have and need if there are too few.
std::vector<std::vector<int32_t>> cut_windows(const Corpus& corpus, int64_t count, int64_t length);

}  // namespace kvcost
