#include "mesh/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::mesh {
namespace {

using testing::HasSubstr;

TEST(OpenDevice, OpensTheCpu) { EXPECT_TRUE(open_device("cpu").is_cpu()); }

TEST(OpenDevice, NamesADeviceThatIsNotOne) {
  EXPECT_THAT([] { (void)open_device("gpu9"); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("unknown device; where: run.device; found: \"gpu9\"")));
}

TEST(DeviceOfProcess, IsItsOwnOrTheOnlyOneThatItSees) {
  EXPECT_EQ(device_of_process(/*local_rank=*/0, /*visible=*/8), 0);
  EXPECT_EQ(device_of_process(/*local_rank=*/7, /*visible=*/8), 7);
  EXPECT_EQ(device_of_process(/*local_rank=*/3, /*visible=*/1),
            0);  // CUDA_VISIBLE_DEVICES of Slurm
  EXPECT_EQ(device_of_process(/*local_rank=*/3, /*visible=*/2), 3);  // refused: there are only two
}

TEST(OpenDevice, SaysThatThisEngineHasNoCuda) {
  try {
    (void)open_device("cuda:1");
    FAIL() << "an engine without CUDA opened a CUDA device";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kResource);
    EXPECT_THAT(error.what(), HasSubstr("no device is present"));
    EXPECT_THAT(error.what(), HasSubstr("built without CUDA"));
  }
}

}  // namespace
}  // namespace tributary::mesh
