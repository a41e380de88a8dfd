#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/requests/measured_machine.h"

namespace tributary::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ProfileNoise, AboveATenthIsSaidToBeOfLittleUse) {
  config::Profile profile;
  profile.noise = 0.1;
  EXPECT_EQ(note_on_noise(profile, "profile.json"), "");
  profile.noise = 1.319;
  EXPECT_THAT(note_on_noise(profile, "profile.json"),
              AllOf(HasSubstr("noise 132 %"), HasSubstr("of little use"),
                    HasSubstr("remove profile.json"), HasSubstr("measure again")));
}

}  // namespace
}  // namespace tributary::app
