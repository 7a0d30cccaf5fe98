#pragma once
#include <string>
#include <string_view>

namespace kvcost {

/// SentencePiece's precompiled character map: u32 size of a double-array trie, the trie, then replacement
/// texts, each ended by NUL. The library follows the trie unchecked, so InputError (starting with `where`)
/// unless every node that text can reach lies inside it. An empty map is fine.
void check_charsmap(std::string_view blob, const std::string& where);

}  // namespace kvcost
