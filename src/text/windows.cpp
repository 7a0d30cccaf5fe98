#include "src/text/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/text/json_view.h"

namespace kvcost {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> read_ids(std::string_view text, const std::string& file, int64_t vocabulary) {
  nlohmann::json document = parse_json(text, file);
  JsonView list(document, file);
  std::vector<int32_t> ids(list.array_size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const nlohmann::json& value = document[i];
    bool fits = value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < vocabulary;
    if (!fits) list.item(i).expected(fmt::format("a token id from 0 to {}", vocabulary - 1));
    ids[i] = value.get<int32_t>();
  }
  return ids;
}

}  // namespace

std::vector<fs::path> text_files(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.is_regular_file() && !entry.path().filename().string().starts_with('.'))
        files.push_back(entry.path());
    if (files.size() == before) throw InputError(fmt::format("{}: a folder without files", path.string()));
    std::sort(files.begin() + ptrdiff_t(before), files.end());
  }
  return files;
}

Corpus read_corpus(const std::vector<fs::path>& paths, const Tokenizer& tokenizer, int64_t vocabulary,
                   bool special_tokens) {
  Corpus corpus;
  std::string digests;
  for (const fs::path& path : text_files(paths)) {
    std::string file = path.string();
    std::string text = read_text(path);
    Document document{file, {}};
    digests += sha256(text);
    if (path.extension() == ".json") {
      document.ids = read_ids(text, file, vocabulary);
      digests += " ids";
    } else {
      try {
        document.ids = tokenizer.encode(text, special_tokens);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", file, error.what()));
      }
      corpus.bos = tokenizer.default_bos();
      if (corpus.bos) document.ids.insert(document.ids.begin(), *corpus.bos);
      auto highest = std::max_element(document.ids.begin(), document.ids.end());
      if (highest != document.ids.end() && *highest >= vocabulary)
        throw InputError(fmt::format("{}: the tokenizer gives id {}, expected one below the model's {} rows",
                                     file, *highest, vocabulary));
    }
    digests += '\n';
    corpus.documents.push_back(std::move(document));
  }
  constexpr size_t plain_digest = 65;
  corpus.hash = digests.size() == plain_digest ? digests.substr(0, 64) : sha256(digests);
  return corpus;
}

std::vector<std::vector<int32_t>> cut_windows(const Corpus& corpus, int64_t count, int64_t length) {
  if (count < 1 || length < 1)
    throw InputError(fmt::format("{} windows of {} tokens: both must be at least 1", count, length));
  int64_t have = 0, tokens = 0;
  for (const Document& document : corpus.documents) {
    have += static_cast<int64_t>(document.ids.size()) / length;
    tokens += static_cast<int64_t>(document.ids.size());
  }
  if (have < count)
    throw InputError(fmt::format(
        "too little text: have {} windows of {} tokens ({} tokens in {} document{}), need {}", have, length,
        tokens, corpus.documents.size(), corpus.documents.size() == 1 ? "" : "s", count));
  std::vector<std::vector<int32_t>> windows;
  for (const Document& document : corpus.documents)
    for (int64_t begin = 0; begin + length <= static_cast<int64_t>(document.ids.size()); begin += length) {
      if (static_cast<int64_t>(windows.size()) == count) return windows;
      windows.emplace_back(document.ids.begin() + begin, document.ids.begin() + begin + length);
    }
  return windows;
}

}  // namespace kvcost
