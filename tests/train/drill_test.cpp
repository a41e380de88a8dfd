#include "train/start/drill.h"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"

namespace tributary::train {
namespace {

using config::DrillFault;
using config::DrillPlace;
using mesh::Section;
using ::testing::HasSubstr;

constexpr std::int64_t kStep = 7;

config::DrillSection drill(DrillPlace place, DrillFault fault = DrillFault::kFail) {
  return {.fault = fault, .rank = 1, .step = kStep, .section = place, .after_seconds = 0};
}

mesh::Launch launch(int rank, const std::string& attempt = "0", int world = 2) {
  mesh::Launch launch;
  launch.rank = rank;
  launch.world = world;
  launch.attempt = attempt;
  return launch;
}

/// Tells the drill of one step, with a collective at its begin and one in backward.
void do_step(Drill& drill, std::int64_t step) {
  drill.enter(Section::kData, step);
  drill.on_collective();
  drill.enter(Section::kForward, step);
  drill.enter(Section::kBackward, step);
  drill.on_collective();
  drill.enter(Section::kOptimizer, step);
  drill.enter(Section::kCheckpoint, step);
  drill.on_written(step);
}

std::string failure_of(Drill& drill, std::int64_t step) {
  try {
    do_step(drill, step);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kResource);
    return error.what();
  }
  return "none";
}

TEST(Drill, StrikesOnceInItsStepAndSection) {
  const std::pair<DrillPlace, const char*> places[] = {
      {DrillPlace::kForward, "rank 1 in forward of step 7"},
      {DrillPlace::kBackward, "rank 1 in backward of step 7"},
      {DrillPlace::kCollective, "rank 1 in a collective of backward of step 7"},
      {DrillPlace::kOptimizer, "rank 1 in the optimizer of step 7"},
      {DrillPlace::kCheckpoint, "rank 1 in the checkpoint of step 7"}};
  for (const auto& [place, words] : places) {
    Drill struck(drill(place), launch(1));
    EXPECT_EQ(failure_of(struck, kStep - 1), "none");
    EXPECT_THAT(failure_of(struck, kStep), HasSubstr(words));
    EXPECT_EQ(failure_of(struck, kStep), "none");
  }
}

TEST(Drill, WaitsForACollectiveOfBackward) {
  Drill struck(drill(DrillPlace::kCollective), launch(1));
  struck.on_collective();
  struck.enter(Section::kForward, kStep);
  struck.on_collective();
  struck.enter(Section::kBackward, kStep);
  EXPECT_THROW(struck.on_collective(), Error);
}

TEST(Drill, LeavesOtherRanksAndLaterAttemptsAlone) {
  Drill other(drill(DrillPlace::kForward), launch(0));
  EXPECT_EQ(failure_of(other, kStep), "none");
  EXPECT_THAT(other.announcement(), HasSubstr("rank 1 of 2 fails in forward of step 7"));
  Drill later(drill(DrillPlace::kForward), launch(1, "1"));
  EXPECT_EQ(failure_of(later, kStep), "none");
  EXPECT_THAT(later.announcement(), HasSubstr("over, this is restart 1"));
}

TEST(Drill, RefusesARankOrACollectiveThatIsNotThere) {
  const auto refusal = [](const config::DrillSection& options, int world) -> std::string {
    try {
      const Drill refused(options, launch(0, "0", world));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kInput);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(drill(DrillPlace::kForward), 1),
              HasSubstr("drill.rank; found: 1; expected: 0 to 0 in a world of 1"));
  config::DrillSection alone = drill(DrillPlace::kCollective);
  alone.rank = 0;
  EXPECT_THAT(refusal(alone, 1), HasSubstr("fault drill in a collective of one rank"));
}

TEST(DrillDeathTest, KillsItsProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Drill struck(drill(DrillPlace::kOptimizer, DrillFault::kKill), launch(1));
        do_step(struck, kStep);
      },
      testing::KilledBySignal(SIGKILL), "fault drill: rank 1 is killed in the optimizer of step 7");
}

TEST(Drill, StopsItsProcessUntilItIsContinued) {
  const pid_t child = fork();
  if (child == 0) {
    Drill struck(drill(DrillPlace::kForward, DrillFault::kStop), launch(1));
    do_step(struck, kStep);
    _exit(3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ASSERT_EQ(kill(child, SIGCONT), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace tributary::train
