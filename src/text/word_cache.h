#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvcost {

/// Most words of a text come again and again: their ids, kept during one call.
class WordCache {
 public:
  /// Appends the ids of `word`, asking `encode(word, ids)` to append them where the word is new.
  template <typename Encode>
  void append(std::string_view word, std::vector<int32_t>& ids, const Encode& encode) {
    constexpr size_t longest = 64, most = size_t{1} << 20;
    if (auto found = known_.find(word); found != known_.end()) {
      auto begin = pool_.begin() + ptrdiff_t(found->second.first);
      ids.insert(ids.end(), begin, begin + ptrdiff_t(found->second.second));
      return;
    }
    size_t before = ids.size();
    encode(word, ids);
    if (word.size() > longest || known_.size() >= most) return;
    size_t begin = pool_.size();
    pool_.insert(pool_.end(), ids.begin() + ptrdiff_t(before), ids.end());
    known_.emplace(words_.emplace_back(word), std::pair{begin, pool_.size() - begin});
  }

 private:
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> known_;
  std::deque<std::string> words_;
  std::vector<int32_t> pool_;
};

}  // namespace kvcost
