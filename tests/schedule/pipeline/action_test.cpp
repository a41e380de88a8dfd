#include "schedule/order/action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::schedule {
namespace {

TEST(ActionText, ReadsBackWhatItWrites) {
  const std::string text = "F0.0 LC0.0 XS'0.12 BW1.3\n\nRF2.0 W1.1 GR0.0 OPT0.0\n";
  const std::vector<ActionList> lists = parse_actions(text);
  ASSERT_EQ(lists.size(), 3U);
  EXPECT_EQ(lists[0][2], (Action{.op = Op::kSendFeatureGradients, .chunk = 0, .microbatch = 12}));
  EXPECT_TRUE(lists[1].empty());
  EXPECT_EQ(to_text(lists), text);
}

TEST(ActionText, NamesTheWordThatIsNoAction) {
  for (const std::string word :
       {"Q0.1", "F", "F0", "F0.", "F.1", "F0.1x", "0.1", "F-1.0", "f0.0", "F0.99999999999"}) {
    EXPECT_THAT([&] { (void)parse_actions("F0.0\nF0.0 " + word + "\n"); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(testing::HasSubstr("word is no action; where: line 2"),
                                   testing::HasSubstr("found: \"" + word + "\""))))
        << word;
  }
  EXPECT_THAT([] { (void)parse_actions("F0.0  F0.1"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("found: \"\"")));
}

}  // namespace
}  // namespace tributary::schedule
