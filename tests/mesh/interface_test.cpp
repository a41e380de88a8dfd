#include "mesh/launch/interface.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::mesh {
namespace {

TEST(Interface, OfAnAddressOfThisMachineIsTheOneThatHasIt) {
  EXPECT_EQ(interface_towards("127.0.0.1"), "lo");
}

TEST(Interface, IsTheOneThatTheVariableNames) {
  ASSERT_EQ(setenv("GLOO_SOCKET_IFNAME", "cable7", 1), 0);
  EXPECT_EQ(collective_interface("127.0.0.1"), "cable7");
  ASSERT_EQ(setenv("GLOO_SOCKET_IFNAME", "", 1), 0);
  EXPECT_EQ(collective_interface("127.0.0.1"), "lo");
  ASSERT_EQ(unsetenv("GLOO_SOCKET_IFNAME"), 0);
}

TEST(Interface, OfANameThatDoesNotResolveIsAnError) {
  try {
    (void)interface_towards("no-such-host.invalid");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kResource);
    EXPECT_THAT(error.what(), testing::HasSubstr("no network interface towards rank 0; where: "
                                                 "no-such-host.invalid"));
  }
}

}  // namespace
}  // namespace tributary::mesh
