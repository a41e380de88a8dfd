#include "train/start/guarded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>

namespace tributary::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int ask_for_too_much() {
  TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes");
}
int call_with_wrong_shapes() { TORCH_CHECK(false, "mat1 and mat2 shapes differ"); }
int raise_ours() {
  TRIB_RAISE(Fault::kInput, .what = "app: the user's mistake", .found = "llocate");
}
int give_seven() { return 7; }

Error error_of(int (*body)()) {
  try {
    (void)guarded(body);
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("no error");
}

TEST(Guarded, NamesAFailedAllocationAsAResource) {
  const Error error = error_of(ask_for_too_much);
  EXPECT_EQ(error.exit_code(), ExitCode::kResource);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("train: out of memory"), HasSubstr("allocate 9 bytes"),
                                  HasSubstr("fix: lower batch.capacity_tokens")));
}

TEST(Guarded, MakesOneLineOfWhatLibtorchThrows) {
  const Error error = error_of(call_with_wrong_shapes);
  EXPECT_EQ(error.exit_code(), ExitCode::kBug);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("train: libtorch refused a call"),
                                  HasSubstr("mat1 and mat2 shapes differ"), Not(HasSubstr("\n")),
                                  Not(HasSubstr("frame #"))));
}

TEST(Guarded, LetsOurOwnErrorsAndResultsPass) {
  EXPECT_EQ(error_of(raise_ours).exit_code(), ExitCode::kInput);
  EXPECT_EQ(guarded(give_seven), 7);
}

}  // namespace
}  // namespace tributary::train
