// tokenizer.json's "pre_tokenizer" object.
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/text/splitter.h"
#include "src/text/utf8.h"

namespace kvcost {
namespace {

constexpr size_t kMostStages = 64;

SplitBehavior read_behavior(const JsonView& behavior) {
  const std::string& name = behavior.text();
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  behavior.expected("Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

std::unique_ptr<Splitter> read_split(const JsonView& split) {
  SplitBehavior behavior = read_behavior(split.at("behavior"));
  bool invert = split.flag("invert", false);
  JsonView pattern = split.at("pattern");
  if (auto regex = pattern.find("Regex"))
    return split_on_pattern(Pattern(regex->text(), regex->where()), behavior, invert);
  return split_on_literal(pattern.at("String").text(), behavior, invert);
}

std::unique_ptr<Splitter> read_metaspace(const JsonView& metaspace) {
  auto scheme = PrependScheme::always;
  if (auto given = metaspace.find("prepend_scheme")) {
    const std::string& name = given->text();
    if (name == "first")
      scheme = PrependScheme::first;
    else if (name == "never")
      scheme = PrependScheme::never;
    else if (name != "always")
      given->expected("always, first or never");
  } else if (!metaspace.flag("add_prefix_space", true)) {
    scheme = PrependScheme::never;
  }
  std::string replacement = metaspace.text("replacement", "\u2581");
  size_t end = 0;
  if (!replacement.empty()) next_code_point(replacement, end);
  if (end == 0 || end != replacement.size() || replacement == " ")
    metaspace.at("replacement").expected("one character other than a space");
  return split_metaspace(std::move(replacement), scheme, metaspace.flag("split", true));
}

void read_stage(const JsonView& stage, PreTokenizer& out, int depth) {
  JsonView type = stage.at("type");
  const std::string& name = type.text();
  if (out.byte_level)
    throw InputError(fmt::format("{}: a stage after ByteLevel, expected ByteLevel last", stage.where()));
  if (out.stages.size() == kMostStages || depth > 8)
    throw InputError(fmt::format("{}: more than {} stages", stage.where(), kMostStages));
  if (name == "Sequence") {
    JsonView list = stage.at("pretokenizers");
    for (size_t i = 0; i < list.array_size(); ++i) read_stage(list.item(i), out, depth + 1);
  } else if (name == "ByteLevel") {
    out.stages.push_back(
        split_byte_level(stage.flag("add_prefix_space", true), stage.flag("use_regex", true)));
    out.byte_level = true;
  } else if (name == "Split") {
    out.stages.push_back(read_split(stage));
  } else if (name == "Digits") {
    out.stages.push_back(split_digits(stage.flag("individual_digits", false)));
  } else if (name == "Metaspace") {
    out.stages.push_back(read_metaspace(stage));
  } else {
    type.expected("a supported pre-tokenizer: ByteLevel, Split, Digits, Metaspace or a Sequence of them");
  }
}

}  // namespace

PreTokenizer read_pre_tokenizer(const JsonView& pre_tokenizer) {
  PreTokenizer out;
  read_stage(pre_tokenizer, out, 0);
  return out;
}

}  // namespace kvcost
