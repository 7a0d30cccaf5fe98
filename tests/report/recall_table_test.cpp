#include "src/report/recall_table.h"

#include <gtest/gtest.h>

#include "src/report/layout.h"
#include "tests/support/sample_recall.h"

namespace kvcost {

TEST(RecallTable, LaysOutDecisionPoints) {
  EXPECT_EQ(
      recall_table(sample_recall()),
      R"(full cache: first answer 1.00 bits, 50% recalled; follow-up 1.00 bits, 25% recalled; 64 cases at 2 depths
                            kept  first  95% interval  recalled  follow-up  95% interval  recalled
nothing is evicted:
  4-bit keys *               256  +0.12  -1.88..+2.12       50%      +0.25  -1.75..+2.25       25%
eviction decided before either question is seen:
  snapkv, 256                256  +3.25  +1.25..+5.25       50%      +6.50  +4.50..+8.50       25%
decided after the first question, before the follow-up:
  snapkv, 256                256  +3.25  +1.25..+5.25       50%      +6.50  +4.50..+8.50       25%
decided after both questions:
  snapkv, 256 (no effect)  1,020      -             -         -      +0.00  -2.00..+2.00       25%

what the follow-up loses because the first question decided and not both:
                bits  95% interval
  snapkv, 256  +6.50  +4.00..+9.00

the follow-up by the depth of its fact, delta (recalled):
                                at 10%        at 90%
full cache, its loss        1.00 (25%)   1.00 (100%)
nothing is evicted:
  4-bit keys *             +0.25 (25%)  +0.00 (100%)
eviction decided before either question is seen:
  snapkv, 256              +6.50 (25%)  +0.00 (100%)
decided after the first question, before the follow-up:
  snapkv, 256              +6.50 (25%)  +0.00 (100%)
decided after both questions:
  snapkv, 256 (no effect)  +0.00 (25%)  +0.00 (100%)
m, fp32; contexts of 1,004 tokens with two facts, then a question about each; answers of 1.2 tokens
first, follow-up: bits of an answer less the full cache's; interval: over cases; recalled: every answer
token is the most probable one; kept: of the tokens before the decision, those that stay for good
* looks ahead: decides by later tokens, as no cache could
)");
}

TEST(RecallTable, LongNamesStayInside) {
  RecallResult result = sample_recall();
  for (int i = 0; i < 6; ++i) result.rows[1].name += " and a policy of many words";
  const std::string text = recall_table(result);
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(display_width(text.substr(begin, end - begin)), kWidestLine);
  }
}

}  // namespace kvcost
