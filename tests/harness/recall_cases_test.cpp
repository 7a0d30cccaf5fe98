#include "src/harness/recall_cases.h"

#include <gtest/gtest.h>

#include <set>

#include "src/base/error.h"
#include "src/base/file.h"
#include "tests/support/toy_tokenizers.h"

namespace kvcost {
namespace {

/// Numbered sentences of about 40 bytes, some lines.
std::string numbered_text(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += fmt::format("Sentence {} goes on about nothing{}.{}", i, std::string(size_t(i % 7), '-'),
                        i % 5 == 4 ? "\n" : " ");
  }
  return text;
}

std::vector<RecallText> texts() { return {{"a", numbered_text(60)}, {"b", numbered_text(90)}}; }

RecallSpec spec(int64_t cases = 4) {
  RecallSpec made;
  made.cases = cases, made.context_tokens = 1000, made.seed = 5;
  made.depths = {0.0, 0.25, 0.5, 1.0};
  return made;
}

std::string hash_of(const std::vector<RecallCase>& cases) {
  std::string all;
  for (const RecallCase& of : cases) {
    all += text_of(of.ids, 0, int64_t(of.ids.size()));
    for (const RecallQuestion* q : {&of.first, &of.follow_up}) {
      all += fmt::format("|{} {} {} {}", q->fact_at, q->question_end, q->answer_begin, q->answer_end);
    }
    all += fmt::format("|{}\n", of.context_end);
  }
  return sha256(all);
}

std::string without(std::string text, const std::string& part) {
  size_t at = text.find(part);
  if (at == std::string::npos) return text + " lacks " + part;
  return text.erase(at, part.size());
}

std::string error_of(const RecallSpec& of, const Tokenizer& tokenizer) {
  try {
    make_recall_cases(of, texts(), tokenizer);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(RecallCases, TheFirstIsAsItAlwaysWas) {
  RecallSpec small = spec(1);
  small.context_tokens = 220, small.depths = {0.5, 0.0};
  const auto cases = make_recall_cases(small, texts(), ByteTokenizer());
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(text_of(cases[0].ids, 0, int64_t(cases[0].ids.size())),
            R"(The emblem of Marble Harbour is bridge.
Sentence 41 goes on about nothing------. The busiest month of Fallow Mill is January. )"
            R"(Sentence 42 goes on about nothing. Sentence 43 goes on about nothing-.

Question: What is the emblem of Marble Harbour?
Answer: The emblem of Marble Harbour is bridge.

Question: What is the busiest month of Fallow Mill?
Answer: The busiest month of Fallow Mill is January)");
  EXPECT_EQ(hash_of(make_recall_cases(spec(64), texts(), ByteTokenizer())),
            "f9e16d755d3e9ecbd08a54ad68e8e098f25783b0cf3b6944ae0cebf9efb3e2d7");
}

TEST(RecallCases, AnotherSeedDrawsOthersAndMoreCasesLeaveTheFirstAlone) {
  const auto cases = make_recall_cases(spec(3), texts(), ByteTokenizer());
  RecallSpec other = spec(3);
  other.seed = 6;
  EXPECT_EQ(hash_of(cases), hash_of(make_recall_cases(spec(3), texts(), ByteTokenizer())));
  EXPECT_NE(hash_of(cases), hash_of(make_recall_cases(other, texts(), ByteTokenizer())));
  auto more = make_recall_cases(spec(5), texts(), ByteTokenizer());
  more.resize(cases.size());
  EXPECT_EQ(hash_of(more), hash_of(cases));
}

TEST(RecallCases, PositionsPointAtWhatTheyName) {
  for (std::optional<int32_t> bos : {std::optional<int32_t>(), std::optional<int32_t>('^')}) {
    for (const RecallCase& of : make_recall_cases(spec(), texts(), ByteTokenizer(bos))) {
      const auto size = int64_t(of.ids.size());
      auto text = [&](int64_t begin, int64_t end) { return text_of(of.ids, begin, std::min(end, size)); };
      if (bos) {
        EXPECT_EQ(of.ids[0], *bos);
      }
      for (const RecallQuestion* q : {&of.first, &of.follow_up}) {
        const std::string sentence = q->fact.sentence();
        EXPECT_NE(text(q->fact_at, q->fact_at + int64_t(sentence.size()) + 1).find(sentence),
                  std::string::npos);
        EXPECT_EQ(text(q->answer_begin, q->answer_end), " " + q->fact.value);
        EXPECT_EQ(text(q->question_end, q->answer_begin), " " + q->fact.stem());
        EXPECT_EQ(text(q->question_end - 7, q->question_end), "Answer:");
      }
      EXPECT_EQ(text(of.context_end, of.first.question_end), "\n\n" + of.first.fact.question());
      EXPECT_EQ(text(of.first.answer_end, of.follow_up.question_end), ".\n\n" + of.follow_up.fact.question());
      EXPECT_EQ(of.follow_up.answer_end, size);
      EXPECT_EQ(prompt_of(of, "before"), of.context_end);
      EXPECT_EQ(prompt_of(of, "first"), of.first.question_end);
      EXPECT_EQ(prompt_of(of, "both"), of.follow_up.question_end);
      EXPECT_NE(of.first.fact.what, of.follow_up.fact.what);
      EXPECT_NE(of.first.fact.who, of.follow_up.fact.who);
      EXPECT_NE(of.first.fact.value, of.follow_up.fact.value);
    }
  }
}

TEST(RecallCases, FactsStandAtTheirDepthsInTheSameText) {
  const RecallSpec asked = spec(20);
  const auto cases = make_recall_cases(asked, texts(), ByteTokenizer());
  ASSERT_EQ(cases.size(), 80u);
  constexpr double kSentence = 45, kFact = 60;  // bytes at most
  for (size_t i = 0; i < cases.size(); ++i) {
    const RecallCase& of = cases[i];
    EXPECT_EQ(of.number, int64_t(i / 4));
    EXPECT_EQ(of.depth, i % 4);
    EXPECT_LE(of.context_end, asked.context_tokens);
    EXPECT_GT(double(of.context_end), double(asked.context_tokens) - kSentence - kFact);
    auto expect_at = [&](const RecallQuestion& q, double depth) {
      // Of the text alone; the other fact may come before.
      EXPECT_NEAR(double(q.fact_at), depth * double(of.context_end), kSentence / 2 + 2 * kFact);
      if (depth == 0) {
        EXPECT_LT(double(q.fact_at), kFact);
      }
      if (depth == 1) {
        EXPECT_GE(q.fact_at + int64_t(q.fact.sentence().size()), of.context_end - int64_t(kFact));
      }
    };
    expect_at(of.follow_up, asked.depths[of.depth]);
    expect_at(of.first, asked.depths[(of.depth + 1) % 4]);
    auto bare = [](const RecallCase& c) {
      std::string text = text_of(c.ids, 0, c.context_end);
      for (const RecallQuestion* q : {&c.first, &c.follow_up}) text = without(text, q->fact.sentence());
      std::erase_if(text, [](char x) { return x == ' ' || x == '\n'; });
      return text;
    };
    EXPECT_EQ(bare(of), bare(cases[i - i % 4]));
  }
}

TEST(RecallCases, WordsMakeAnswersOfOneToken) {
  RecallSpec words = spec();
  words.context_tokens = 150;
  for (const RecallCase& of : make_recall_cases(words, texts(), WordTokenizer())) {
    EXPECT_EQ(of.first.answer_end - of.first.answer_begin, 1);
    EXPECT_EQ(of.follow_up.answer_end - of.follow_up.answer_begin, 1);
    EXPECT_LE(of.context_end, 150);
  }
}

TEST(RecallCases, RefusesWhatCannotBeAsked) {
  RecallSpec long_one = spec();
  long_one.context_tokens = 100000;
  EXPECT_EQ(error_of(long_one, ByteTokenizer()),
            "recall.context_tokens: found 100000, expected less: no text has so many in whole sentences");
  EXPECT_NE(error_of(spec(), WordTokenizer(true)), "") << "one token for everything";
}

TEST(RecallCases, SentencesAreTheTextAgain) {
  const std::string text = "One. Two!  Three?\nfour\n\n\nfive " + std::string(500, 'x') + " six";
  const std::vector<std::string> pieces = cut_sentences(text);
  EXPECT_EQ(pieces, (std::vector<std::string>{"One. ", "Two! ", " Three?\n", "four\n\n\n",
                                              "five " + std::string(500, 'x') + " ", "six"}));
  EXPECT_TRUE(cut_sentences("").empty());
}

}  // namespace kvcost
