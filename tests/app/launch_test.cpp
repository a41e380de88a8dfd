#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/launch/find_cause.h"
#include "app/launch/restart_policy.h"
#include "core/error.h"

namespace tributary::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RestartPolicy, PausesTwiceAsLongEachTimeUpToALimit) {
  RestartPolicy policy({.restarts = 20, .first_pause_seconds = 1, .longest_pause_seconds = 60});
  std::vector<double> pauses;
  for (std::int64_t step = 0; step < 8; ++step)
    pauses.push_back(policy.after_failure({.exit_code = 10, .step = step}).pause_seconds);
  EXPECT_THAT(pauses, testing::ElementsAre(1, 2, 4, 8, 16, 32, 60, 60));
}

TEST(RestartPolicy, RestartsWhatAnotherStartMayCure) {
  for (const int code : {5, 10, 11, 12, 70, 128 + 9, 128 + 11})
    EXPECT_TRUE(RestartPolicy({}).after_failure({.exit_code = code}).restarts) << code;
  for (const int code : {1, 2, 3, 4, 13, 14, 15, 127}) {
    const NextAction next = RestartPolicy({}).after_failure({.exit_code = code});
    EXPECT_FALSE(next.restarts) << code;
    EXPECT_EQ(next.exit_code, code);
  }
}

TEST(RestartPolicy, LeavesWithTheCauseWhenNoRestartIsAllowed) {
  const NextAction next = RestartPolicy({.restarts = 0}).after_failure({.exit_code = 137});
  EXPECT_FALSE(next.restarts);
  EXPECT_EQ(next.exit_code, 137);
}

TEST(RestartPolicy, ThreeFailuresAtOneStepAreACrashLoop) {
  RestartPolicy policy({});
  EXPECT_TRUE(policy.after_failure({.exit_code = 10, .step = 7, .cause = "first"}).restarts);
  EXPECT_TRUE(policy.after_failure({.exit_code = 11, .step = 9, .cause = "other"}).restarts);
  EXPECT_TRUE(policy.after_failure({.exit_code = 70, .step = 7, .cause = "second"}).restarts);
  const NextAction next = policy.after_failure({.exit_code = 70, .step = 7, .cause = "third"});
  EXPECT_FALSE(next.restarts);
  EXPECT_EQ(next.exit_code, 14);
  EXPECT_THAT(next.reason, AllOf(HasSubstr("crash loop: 3 failures at step 7"),
                                 HasSubstr("attempt 0, exit code 10: first"),
                                 HasSubstr("attempt 3, exit code 70: third")));
}

TEST(RestartPolicy, FailuresBeforeAnyStepAreOneStepToo) {
  RestartPolicy policy({});
  EXPECT_TRUE(policy.after_failure({.exit_code = 5}).restarts);
  EXPECT_TRUE(policy.after_failure({.exit_code = 5}).restarts);
  EXPECT_THAT(policy.after_failure({.exit_code = 5}).reason, HasSubstr("before any step"));
}

TEST(RestartPolicy, GivesUpAtTheLimitUnlessStepsWereMade) {
  RestartPolicy policy({.restarts = 2});
  EXPECT_TRUE(policy.after_failure({.exit_code = 10, .step = 10}).restarts);
  EXPECT_TRUE(policy.after_failure({.exit_code = 10, .step = 60}).restarts);
  const NextAction forgiven = policy.after_failure({.exit_code = 10, .step = 160});
  EXPECT_TRUE(forgiven.restarts);
  EXPECT_EQ(forgiven.pause_seconds, 1);
  EXPECT_TRUE(policy.after_failure({.exit_code = 10, .step = 170}).restarts);
  const NextAction next = policy.after_failure({.exit_code = 10, .step = 180});
  EXPECT_FALSE(next.restarts);
  EXPECT_EQ(next.exit_code, 14);
  EXPECT_THAT(next.reason, HasSubstr("restart limit: 2 restarts"));
}

TEST(FindCause, AnOwnFaultExplainsKilledStoppedAndLostRanks) {
  const std::vector<RankEnd> ends{
      {.rank = 0, .exit_code = 10, .at_seconds = 1, .lines = {"[rank 0 step 4] resource error: a"}},
      {.rank = 1, .exit_code = 137, .at_seconds = 2},
      {.rank = 2, .exit_code = 70, .at_seconds = 3, .lines = {"[rank 2 step 5] bug: b", "bye"}},
      {.rank = 3, .exit_code = 2, .at_seconds = 0, .was_stopped = true}};
  const AttemptEnd cause = find_cause(ends);
  EXPECT_EQ(cause.exit_code, 70);
  EXPECT_EQ(cause.step, 5);
  EXPECT_EQ(cause.cause, "rank 2 left with exit code 70: [rank 2 step 5] bug: b");
}

TEST(FindCause, OfAKilledRankItSaysWhatTheOthersSaw) {
  const std::vector<RankEnd> ends{
      {.rank = 0,
       .exit_code = 10,
       .at_seconds = 1,
       .lines = {"loss 3.0", "[rank 0 step 12] resource error: mesh: rank lost: rank 1 on a"}},
      {.rank = 1, .exit_code = 137, .at_seconds = 2, .lines = {"loss 3.0"}}};
  const AttemptEnd cause = find_cause(ends);
  EXPECT_EQ(cause.exit_code, 137);
  EXPECT_EQ(cause.step, 12);
  EXPECT_EQ(cause.cause,
            "rank 1 was killed by signal 9 (Killed): [rank 0 step 12] resource error: mesh: rank "
            "lost: rank 1 on a");
}

TEST(FindCause, NamesAnErrorOfSeveralLinesWhole) {
  const std::deque<std::string> lines{
      "reading",    "input error: config: 2 problems; found: ", "  1. one",
      "  2. other", "  [config/reading/problems.cpp:80]",       "bye"};
  const std::vector<RankEnd> ends{{.rank = 0, .exit_code = 2, .at_seconds = 1, .lines = lines}};
  const AttemptEnd cause = find_cause(ends);
  EXPECT_EQ(cause.cause,
            "rank 0 left with exit code 2: input error: config: 2 problems; found: \n  1. one\n"
            "  2. other\n  [config/reading/problems.cpp:80]");
  EXPECT_THAT(without_error(lines, cause.error), testing::ElementsAre("reading", "bye"));
}

TEST(WithoutError, ComparesErrorsWithoutTheRankThatTellsThem) {
  const std::string error = "resource error: mesh: rank lost";
  EXPECT_THAT(without_error({"[rank 3 step 1] " + error, "[rank 3 step 1] bug: other"}, error),
              testing::ElementsAre("[rank 3 step 1] bug: other"));
  EXPECT_THAT(without_error({error}, ""), testing::ElementsAre(error));
}

TEST(FindCause, TakesTheFirstOfEqualsAndKnowsNoStepWithoutALine) {
  const std::vector<RankEnd> ends{{.rank = 0, .exit_code = 2, .at_seconds = 5},
                                  {.rank = 1, .exit_code = 2, .at_seconds = 4},
                                  {.rank = 2, .exit_code = 0, .at_seconds = 1}};
  const AttemptEnd cause = find_cause(ends);
  EXPECT_EQ(cause.cause, "rank 1 left with exit code 2");
  EXPECT_FALSE(cause.step);
  EXPECT_THROW((void)find_cause(std::span(ends).last(1)), Error);
}

}  // namespace
}  // namespace tributary::app
