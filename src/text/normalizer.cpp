#include "src/text/normalizer.h"

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/text/utf8.h"

namespace kvcost {
namespace {

using Step = Normalizer::Step;
constexpr size_t kMostSteps = 64;
constexpr size_t kLongestText = size_t{1} << 30;

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size()) {
    out.append(text.substr(at, found - at)).append(to);
    if (out.size() > kLongestText) throw InputError("the tokenizer's normalizer makes a text of over 1 GiB");
  }
  return out.append(text.substr(at));
}

void read_step(const JsonView& step, std::vector<Step>& out, int depth) {
  JsonView type = step.at("type");
  const std::string& name = type.text();
  if (out.size() == kMostSteps || depth > 8)
    throw InputError(fmt::format("{}: more than {} steps", step.where(), kMostSteps));
  if (name == "Sequence") {
    JsonView list = step.at("normalizers");
    for (size_t i = 0; i < list.array_size(); ++i) read_step(list.item(i), out, depth + 1);
  } else if (name == "NFC" || name == "NFD" || name == "NFKC" || name == "NFKD") {
    out.push_back({Step::Kind::normal_form, name, ""});
  } else if (name == "Prepend") {
    out.push_back({Step::Kind::prepend, step.at("prepend").text(), ""});
  } else if (name == "Replace") {
    JsonView from = step.at("pattern").at("String");
    if (from.text().empty()) from.expected("at least one character");
    out.push_back({Step::Kind::replace, from.text(), step.at("content").text()});
  } else {
    type.expected(
        "a supported normalizer: NFC, NFD, NFKC, NFKD, Prepend, Replace (of a String) or a Sequence of them");
  }
}

}  // namespace

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (out.empty()) break;
    switch (step.kind) {
      case Step::Kind::normal_form:
        out = normal_form(out, step.first);
        break;
      case Step::Kind::prepend:
        out.insert(0, step.first);
        break;
      case Step::Kind::replace:
        out = replace_all(out, step.first, step.second);
        break;
    }
  }
  return out;
}

Normalizer read_normalizer(const JsonView& normalizer) {
  std::vector<Step> steps;
  read_step(normalizer, steps, 0);
  return Normalizer(std::move(steps));
}

}  // namespace kvcost
