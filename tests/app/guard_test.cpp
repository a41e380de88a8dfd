#include "app/engine/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>

namespace tributary::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ExitCode ask_for_too_much(const int&) {
  TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes");
}
ExitCode call_with_wrong_shapes(const int&) { TORCH_CHECK(false, "mat1 and mat2 shapes differ"); }
ExitCode raise_ours(const int&) {
  TRIB_RAISE(Fault::kInput, .what = "app: the user's mistake", .found = "llocate");
}
int give_seven() { return 7; }

template <auto kVerb>
Error error_of() {
  try {
    (void)Guarded<kVerb>::call(1);
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("no error");
}

TEST(Guarded, NamesAFailedAllocationAsAResource) {
  const Error error = error_of<ask_for_too_much>();
  EXPECT_EQ(error.exit_code(), ExitCode::kResource);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("app: out of memory"), HasSubstr("allocate 9 bytes"),
                                  HasSubstr("fix: lower batch.capacity_tokens")));
}

TEST(Guarded, MakesOneLineOfWhatLibtorchThrows) {
  const Error error = error_of<call_with_wrong_shapes>();
  EXPECT_EQ(error.exit_code(), ExitCode::kBug);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("app: libtorch refused a call"),
                                  HasSubstr("mat1 and mat2 shapes differ"), Not(HasSubstr("\n")),
                                  Not(HasSubstr("frame #"))));
}

TEST(Guarded, LetsOurOwnErrorsAndResultsPass) {
  EXPECT_EQ(error_of<raise_ours>().exit_code(), ExitCode::kInput);
  EXPECT_EQ(Guarded<give_seven>::call(), 7);
}

}  // namespace
}  // namespace tributary::app
