#include "train/checkpoint/compatibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/train/checkpoint/small_run.h"

namespace tributary::train {
namespace {

using testing::HasSubstr;

TEST(CheckIdentity, ListsEveryKeyThatDiffers) {
  config::RunConfig config;
  config.run.seed = 7;
  config.data.max_tokens = 64;
  const RunIdentity saved = describe_identity(config);
  check_identity(saved, saved);
  config::RunConfig free = config;  // what may change
  free.run.threads = 9;
  free.run.steps = 5;
  free.data.workers = 7;
  free.optimizer.learning_rate = 1;
  free.batch.capacity_tokens = {64};
  check_identity(saved, describe_identity(free));

  free.data.max_tokens = 0;  // the capacity is the limit now
  free.batch.capacity_tokens = {65};
  EXPECT_THAT(message_of([&] { check_identity(saved, describe_identity(free)); },
                         ExitCode::kCheckpointRefused),
              HasSubstr("found: data.max_tokens was \"64\", is \"65\""));

  config.run.seed = 8;
  config.batch.global_samples = 64;
  RunIdentity now = describe_identity(config);
  now["data.digest"] = "ab";
  const std::string message =
      message_of([&] { check_identity(saved, now); }, ExitCode::kCheckpointRefused);
  EXPECT_THAT(message, HasSubstr("the configuration has changed; found: batch.global_samples was "
                                 "\"32\", is \"64\", data.digest was (none), is \"ab\", "
                                 "run.seed was \"7\", is \"8\""));
  const std::vector<std::string> accepted{"run.seed", "data.digest", "batch.global_samples"};
  check_identity(saved, now, accepted);
  EXPECT_THAT(message, HasSubstr("--accept-change=KEY"));
}

TEST(CheckIdentity, RefusesToAcceptAKeyThatThereIsNot) {
  const RunIdentity saved = describe_identity(config::RunConfig());
  const std::vector<std::string> accepted{"run.sead"};
  EXPECT_THAT(
      message_of([&] { check_identity(saved, saved, accepted); }, ExitCode::kInput),
      testing::AllOf(HasSubstr("accepted change is of no known key"),
                     HasSubstr("--accept-change; found: \"run.sead\""), HasSubstr("run.seed")));
}

}  // namespace
}  // namespace tributary::train
