#include "src/harness/recall_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/splitmix.h"

namespace kvcost {
namespace {

using Words = std::vector<std::string>;

/// What can be known of somebody or of some place. Values are short common words: one token or two.
struct Kind {
  const char* what;
  bool of_person;
  Words values;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"favourite fruit",
       true,
       {"apple", "peach", "lemon", "cherry", "banana", "mango", "grape", "melon", "plum", "orange", "pear"}},
      {"favourite animal",
       true,
       {"horse", "tiger", "rabbit", "eagle", "dolphin", "wolf", "bear", "snake", "turtle", "lion", "fox"}},
      {"lucky number",
       true,
       {"seven", "eleven", "twelve", "twenty", "thirty", "forty", "fifty", "sixty", "eight", "nine", "four"}},
      {"home city",
       true,
       {"Paris", "London", "Rome", "Berlin", "Madrid", "Boston", "Chicago", "Dublin", "Tokyo", "Cairo",
        "Moscow"}},
      {"password",
       false,
       {"copper", "silver", "diamond", "ribbon", "velvet", "cotton", "granite", "crystal", "iron", "gold",
        "paper"}},
      {"emblem",
       false,
       {"crown", "anchor", "rose", "sword", "star", "moon", "tree", "bridge", "wheel", "shield", "tower"}},
      {"busiest month",
       false,
       {"January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
        "November"}},
      {"main crop",
       false,
       {"wheat", "corn", "rice", "barley", "tea", "coffee", "cotton", "sugar", "potatoes", "beans",
        "tobacco"}},
  };
  return all;
}

const Words kFirstNames = {"Marta", "Ivo",   "Selma", "Tobin",  "Greta", "Ruben", "Ilse",  "Magnus",
                           "Dora",  "Nadia", "Otto",  "Freya",  "Silas", "Hugo",  "Lenka", "Emil",
                           "Rosa",  "Thea",  "Jonas", "Viktor", "Clara", "Felix", "Hanna", "Oskar"};
const Words kLastNames = {"Quill", "Falk", "Moreau", "Tanaka", "Whitlock", "Castell", "Haddad", "Novak",
                          "Ruiz",  "Voss", "Keller", "Duarte", "Fenwick",  "Calder",  "Thorne", "Ashdown"};
const Words kPlaceNames = {"Alder",   "Bramble", "Cinder", "Ember",  "Fallow", "Garnet", "Heron",  "Ivory",
                           "Juniper", "Kestrel", "Linden", "Marble", "Nettle", "Osprey", "Pewter", "Willow"};
const Words kPlaceKinds = {"Mill", "Hall", "Abbey", "Station", "Lodge", "Castle", "School", "Harbour"};

/// Draws from one case's own sequence.
class Draw {
 public:
  Draw(int64_t seed, int64_t number) : state_(static_cast<uint64_t>(seed)) {
    state_ = next_random(state_) ^ static_cast<uint64_t>(number);
    next_random(state_);
  }
  size_t below(size_t count) { return static_cast<size_t>(next_random(state_) % count); }
  /// Two that differ.
  std::pair<size_t, size_t> two_below(size_t count) {
    size_t first = below(count), second = below(count - 1);
    return {first, second + (second >= first)};
  }

 private:
  uint64_t state_;
};

/// Two facts that share no name, no kind and no value.
std::pair<RecallFact, RecallFact> draw_facts(Draw& draw) {
  auto [a, b] = draw.two_below(kinds().size());
  auto [first_a, first_b] = draw.two_below(kFirstNames.size());
  auto [last_a, last_b] = draw.two_below(kLastNames.size());
  auto [place_a, place_b] = draw.two_below(kPlaceNames.size());
  auto [sort_a, sort_b] = draw.two_below(kPlaceKinds.size());
  auto fact = [&](size_t kind, size_t first, size_t last, size_t place, size_t sort) {
    const Kind& of = kinds()[kind];
    return RecallFact{of.what,
                      of.of_person ? kFirstNames[first] + " " + kLastNames[last]
                                   : kPlaceNames[place] + " " + kPlaceKinds[sort],
                      of.values[draw.below(of.values.size())]};
  };
  RecallFact first = fact(a, first_a, last_a, place_a, sort_a);
  RecallFact second = fact(b, first_b, last_b, place_b, sort_b);
  while (second.value == first.value) second = fact(b, first_b, last_b, place_b, sort_b);
  return {first, second};
}

/// A document in sentences, and how many tokens each takes by itself.
struct Sentences {
  std::vector<std::string> pieces;
  std::vector<int64_t> tokens;
};

/// Where a context may begin.
struct Start {
  size_t text, piece;
};

/// How many pieces from `start` on fit into `room` tokens.
size_t pieces_that_fit(const Sentences& text, size_t start, int64_t room) {
  size_t count = 0;
  for (size_t p = start; p < text.pieces.size() && (room -= text.tokens[p]) >= 0; ++p) ++count;
  return count;
}

/// Starts from which the text goes on for long enough, and whose sentences are not so long that little fits.
std::vector<Start> find_starts(const std::vector<Sentences>& texts, int64_t context_tokens) {
  std::vector<Start> starts;
  for (size_t t = 0; t < texts.size(); ++t) {
    for (size_t p = 0; p < texts[t].pieces.size(); ++p) {
      size_t count = pieces_that_fit(texts[t], p, context_tokens);
      int64_t held = 0;
      for (size_t i = p; i < p + count; ++i) held += texts[t].tokens[i];
      if (p + count < texts[t].pieces.size() && 2 * held >= context_tokens) starts.push_back({t, p});
    }
  }
  return starts;
}

int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

/// Text under construction, with marks in it that become token positions.
class CaseText {
 public:
  void add(const std::string& text) { text_ += text; }
  /// Marks the place reached, less the blanks that end it: they may join what follows into one token.
  void mark(int64_t& position) {
    size_t end = text_.find_last_not_of(" \n") + 1;
    marks_.push_back({end, &position});
  }
  void trim() { text_.resize(text_.find_last_not_of(" \n") + 1); }
  bool ends_line() const { return text_.empty() || text_.back() == '\n'; }

  void resolve(const Tokenizer& tokenizer, std::vector<int32_t>& ids) const {
    ids = tokenizer.encode(text_);
    for (const auto& [end, position] : marks_) {
      *position = common_prefix(tokenizer.encode(std::string_view(text_).substr(0, end)), ids);
    }
  }

 private:
  std::string text_;
  std::vector<std::pair<size_t, int64_t*>> marks_;
};

struct Placement {
  std::span<const std::string> pieces;
  std::span<const int64_t> tokens;
  double first_depth, follow_up_depth;
};

/// The piece before which a fact at `depth` stands: where the tokens so far come nearest.
size_t piece_at(const Placement& place, double depth) {
  int64_t total = 0;
  for (int64_t tokens : place.tokens) total += tokens;
  const double wanted = depth * static_cast<double>(total);
  size_t best = 0;
  double so_far = 0, nearest = wanted;
  for (size_t p = 0; p < place.tokens.size(); ++p) {
    so_far += static_cast<double>(place.tokens[p]);
    if (std::abs(so_far - wanted) < nearest) best = p + 1, nearest = std::abs(so_far - wanted);
  }
  return best;
}

void add_fact(CaseText& text, RecallQuestion& question) {
  text.mark(question.fact_at);
  text.add(question.fact.sentence() + (text.ends_line() ? "\n" : " "));
}

void add_question(CaseText& text, RecallQuestion& question) {
  text.add("\n\n");
  text.add(question.fact.question());
  text.mark(question.question_end);
  text.add(" ");
  text.add(question.fact.stem());
  text.mark(question.answer_begin);
  text.add(" " + question.fact.value);
  text.mark(question.answer_end);
}

void fill(RecallCase& made, const Placement& place, const Tokenizer& tokenizer) {
  const size_t first_at = piece_at(place, place.first_depth),
               follow_up_at = piece_at(place, place.follow_up_depth);
  CaseText text;
  for (size_t p = 0; p <= place.pieces.size(); ++p) {
    if (p == first_at) add_fact(text, made.first);
    if (p == follow_up_at) add_fact(text, made.follow_up);
    if (p < place.pieces.size()) text.add(place.pieces[p]);
  }
  text.trim();
  text.mark(made.context_end);
  add_question(text, made.first);
  text.add(".");
  add_question(text, made.follow_up);
  text.resolve(tokenizer, made.ids);
}

void shift(RecallCase& made, int64_t by) {
  made.context_end += by;
  for (RecallQuestion* question : {&made.first, &made.follow_up}) {
    question->fact_at += by, question->question_end += by;
    question->answer_begin += by, question->answer_end += by;
  }
}

void check_boundaries(const RecallCase& made) {
  for (const RecallQuestion* question : {&made.first, &made.follow_up}) {
    if (question->question_end < question->answer_begin && question->answer_begin < question->answer_end)
      continue;
    throw InputError(
        fmt::format("recall: the tokenizer joins '{}' to the words before it", question->fact.value));
  }
}

/// One case at every depth, in the same sentences.
std::vector<RecallCase> cases_of(const RecallSpec& spec, int64_t number, Draw& draw, const Sentences& text,
                                 size_t start, const Tokenizer& tokenizer) {
  const auto [first, follow_up] = draw_facts(draw);
  const size_t facts = tokenizer.encode(first.sentence() + " " + follow_up.sentence()).size();
  size_t count = pieces_that_fit(text, start, spec.context_tokens - static_cast<int64_t>(facts));
  std::vector<RecallCase> cases(spec.depths.size());
  // Sentences may take more tokens together than one by one.
  for (bool fits = false; !fits; --count) {
    fits = true;
    for (size_t d = 0; d < cases.size(); ++d) {
      RecallCase& made = cases[d];
      made.number = number, made.depth = d;
      made.first.fact = first, made.follow_up.fact = follow_up;
      const double first_depth = spec.depths[(d + 1) % spec.depths.size()];
      fill(made,
           {std::span(text.pieces).subspan(start, count), std::span(text.tokens).subspan(start, count),
            first_depth, spec.depths[d]},
           tokenizer);
      check_boundaries(made);
      fits = fits && (made.context_end <= spec.context_tokens || count == 0);
    }
  }
  for (RecallCase& made : cases) {
    if (auto bos = tokenizer.default_bos()) {
      made.ids.insert(made.ids.begin(), *bos);
      shift(made, 1);
    }
  }
  return cases;
}

}  // namespace

int64_t prompt_of(const RecallCase& of, const std::string& decided) {
  if (decided == "first") return of.first.question_end;
  if (decided == "both") return of.follow_up.question_end;
  return of.context_end;
}

std::vector<std::string> cut_sentences(const std::string& text) {
  constexpr size_t kLongPiece = 400;  // bytes
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], before = i > 0 ? text[i - 1] : ' ';
    const bool sentence = c == ' ' && (before == '.' || before == '!' || before == '?');
    const bool last_of_lines = c == '\n' && (i + 1 == text.size() || text[i + 1] != '\n');
    if (!sentence && !last_of_lines && !(c == ' ' && i - begin >= kLongPiece)) continue;
    pieces.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  if (begin < text.size()) pieces.push_back(text.substr(begin));
  return pieces;
}

std::vector<RecallCase> make_recall_cases(const RecallSpec& spec, std::span<const RecallText> texts,
                                          const Tokenizer& tokenizer) {
  std::vector<Sentences> sentences;
  for (const RecallText& text : texts) {
    sentences.push_back({cut_sentences(text.text), {}});
    for (const std::string& piece : sentences.back().pieces) {
      sentences.back().tokens.push_back(static_cast<int64_t>(tokenizer.encode(piece).size()));
    }
  }
  const std::vector<Start> starts = find_starts(sentences, spec.context_tokens);
  if (starts.empty()) {
    throw InputError(
        fmt::format("recall.context_tokens: found {}, expected less: no text has so many in whole "
                    "sentences",
                    spec.context_tokens));
  }
  std::vector<RecallCase> cases;
  for (int64_t number = 0; number < spec.cases; ++number) {
    Draw draw(spec.seed, number);
    const Start start = starts[draw.below(starts.size())];
    for (RecallCase& made : cases_of(spec, number, draw, sentences[start.text], start.piece, tokenizer)) {
      cases.push_back(std::move(made));
    }
  }
  return cases;
}

}  // namespace kvcost
