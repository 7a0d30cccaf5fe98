#include "src/text/charsmap.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "src/base/error.h"

namespace kvcost {
namespace {

/// One unit of a Darts-clone double array.
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return bits >> 8 & 1; }
  uint32_t value() const { return bits & 0x7FFFFFFF; }
  uint32_t label() const { return bits & (uint32_t{1} << 31 | 0xFF); }
  uint32_t offset() const { return (bits >> 10) << ((bits & (1u << 9)) >> 6); }
};

}  // namespace

void check_charsmap(std::string_view blob, const std::string& where) {
  // The library keeps this many matches at a place and does not look whether there are more.
  constexpr int most_matches = 32;
  auto fail = [&](std::string_view what) {
    throw InputError(fmt::format("{}: a character map {}", where, what));
  };
  if (blob.empty()) return;
  uint32_t trie_bytes = 0;
  if (blob.size() <= sizeof trie_bytes) fail("of less than 5 bytes");
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  if (trie_bytes >= blob.size() || trie_bytes < 256 * sizeof(Unit) || trie_bytes % sizeof(Unit) != 0)
    fail(fmt::format("whose trie takes {} of {} bytes", trie_bytes, blob.size()));
  std::string_view texts = blob.substr(trie_bytes);
  if (texts.back() != '\0') fail("whose last replacement has no end");
  std::vector<Unit> units(trie_bytes / sizeof(Unit));
  std::memcpy(units.data(), blob.data(), trie_bytes);

  struct Node {
    uint32_t at;
    int matches;
  };
  std::vector<Node> open = {{0, 0}};
  std::vector<bool> seen(units.size(), false);
  seen[0] = true;
  while (!open.empty()) {
    Node node = open.back();
    open.pop_back();
    Unit unit = units[node.at];
    uint32_t base = node.at ^ unit.offset();
    if ((base | 0xFF) >= units.size()) fail("with an offset outside its trie");
    if (node.at != 0 && unit.has_leaf()) {
      if (units[base].value() >= texts.size()) fail("with a replacement outside its texts");
      if (++node.matches > most_matches) fail("with too many prefixes of one string");
    }
    for (uint32_t label = 0; label < 256; ++label) {
      uint32_t child = base ^ label;
      if (units[child].label() != label) continue;
      // The leaf of a node stands where its child of label 0 would, and may look like one only if it is 0.
      if (label == 0 && (unit.has_leaf() || child == node.at)) continue;
      if (seen[child]) fail("whose trie has a loop");
      seen[child] = true;
      open.push_back({child, node.matches});
    }
  }
}

}  // namespace kvcost
