#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/json_view.h"
#include "src/text/pattern.h"

namespace kvcost {

/// Pieces of a text under way from stage to stage; `owned` holds text that a stage made.
struct Pieces {
  std::vector<std::string_view> list;
  std::deque<std::string> owned;
};

/// One stage of a pre-tokenizer: cuts each piece into smaller ones, never empty.
class Splitter {
 public:
  virtual ~Splitter() = default;
  /// `opens_text`: the first piece starts the user's text, as no special token stands before it.
  virtual void split(Pieces& pieces, bool opens_text) const = 0;
};

using Splitters = std::vector<std::unique_ptr<Splitter>>;

/// How a tokenizer file says matches become pieces ("behavior").
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

std::unique_ptr<Splitter> split_on_pattern(Pattern pattern, SplitBehavior behavior, bool invert);
std::unique_ptr<Splitter> split_on_literal(std::string literal, SplitBehavior behavior, bool invert);
std::unique_ptr<Splitter> split_digits(bool individual);
/// Byte-level: `prefix_space` puts a space before a piece without one; `gpt2_pattern` cuts as GPT-2 does.
std::unique_ptr<Splitter> split_byte_level(bool prefix_space, bool gpt2_pattern);

enum class PrependScheme { always, first, never };
std::unique_ptr<Splitter> split_metaspace(std::string replacement, PrependScheme prepend, bool split);

/// A tokenizer.json's "pre_tokenizer". `byte_level` says whether it ends in ByteLevel, so that the vocabulary
/// spells bytes. InputError naming what is not supported.
struct PreTokenizer {
  Splitters stages;
  bool byte_level = false;
};
PreTokenizer read_pre_tokenizer(const JsonView& pre_tokenizer);

}  // namespace kvcost
