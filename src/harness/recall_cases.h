#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/harness/config/experiment.h"
#include "src/text/tokenizer.h"

namespace kvcost {

/// "The {what} of {who} is {value}."
struct RecallFact {
  std::string what, who, value;

  std::string stem() const { return "The " + what + " of " + who + " is"; }
  std::string sentence() const { return stem() + " " + value + "."; }
  std::string question() const { return "Question: What is the " + what + " of " + who + "?\nAnswer:"; }
  bool operator==(const RecallFact&) const = default;
};

/// One question, in the tokens of its case.
struct RecallQuestion {
  RecallFact fact;
  int64_t fact_at = 0;                       ///< where the fact's sentence begins
  int64_t question_end = 0;                  ///< tokens up to and with the question's "Answer:"
  int64_t answer_begin = 0, answer_end = 0;  ///< the value's tokens, which are scored
};

/// Held-out text with two facts in it, then a question about each, answered truly:
///   CONTEXT \n\n Question: ... \n Answer: The ... is VALUE. \n\n Question: ... \n Answer: The ... is VALUE
/// The answer repeats the question's words before the value, so that no scored token is predicted by the
/// query after which a cache decides.
struct RecallCase {
  int64_t number = 0;  ///< cases of one number have the same text, facts and questions
  size_t depth = 0;    ///< index of the depth at which the follow-up's fact stands
  std::vector<int32_t> ids;
  int64_t context_end = 0;  ///< tokens before either question
  RecallQuestion first, follow_up;
};

/// How many tokens come before the decision named so (kDecisionPoints); "" is as "before".
int64_t prompt_of(const RecallCase& of, const std::string& decided);

/// A document that facts are placed in.
struct RecallText {
  std::string name, text;
};

/// spec.cases * spec.depths.size() cases, all depths of one number in a row; the same for the same seed,
/// texts and tokenizer everywhere. A fact stands between two sentences, nearest to its depth; contexts are
/// whole sentences, at most spec.context_tokens long. InputError if no text is long enough, or the tokenizer
/// does not separate a value from what stands before it.
std::vector<RecallCase> make_recall_cases(const RecallSpec& spec, std::span<const RecallText> texts,
                                          const Tokenizer& tokenizer);

/// Text cut after line ends and sentence ends, and at a space where neither comes for long. Joined, the
/// pieces are the text again.
std::vector<std::string> cut_sentences(const std::string& text);

}  // namespace kvcost
