#include "train/checkpoint/directory_lock.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/error.h"
#include "tests/train/checkpoint/small_run.h"

namespace tributary::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  return read_text_file(real_file_system(), path, std::uint64_t{1} << 20);
}

TEST(DirectoryLock, HoldsTheDirectoryAgainstASecondJob) {
  const std::string root = scratch_directory();
  std::string job;
  {
    const CheckpointWriter first({.root = root});
    job = content_of(root + "/LOCK").substr(0, 8);
    EXPECT_THAT(message_of([&] { CheckpointWriter({.root = root}); }, ExitCode::kInput),
                AllOf(HasSubstr("another job holds the directory; where: " + root),
                      HasSubstr(job + " 0000000001")));
  }
  const DirectoryLock again(root);
  EXPECT_EQ(again.job(), job);
  EXPECT_EQ(again.incarnation(), 2);
}

TEST(DirectoryLock, WritesThroughNoLink) {
  const std::string root = scratch_directory();
  const std::string outside = root + "/outside";
  std::ofstream(outside) << "precious";
  std::filesystem::create_symlink(outside, root + "/LOCK");
  EXPECT_THAT(message_of([&] { DirectoryLock lock(root); }, ExitCode::kInput),
              AllOf(HasSubstr("the lock is a symbolic link; where: " + root + "/LOCK"),
                    HasSubstr("fix: remove the link")));
  EXPECT_EQ(content_of(outside), "precious");
}

/// Until it goes, the process can make no file grow and write none.
class FullQuota {
 public:
  FullQuota() : former_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit none{.rlim_cur = 0, .rlim_max = former_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullQuota() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_handler_);
  }
  FullQuota(const FullQuota&) = delete;
  FullQuota& operator=(const FullQuota&) = delete;

 private:
  void (*former_handler_)(int);
  rlimit former_{};
};

TEST(DirectoryLock, NeverForgetsItsJobWhenTheLockCannotBeWritten) {
  const std::string root = scratch_directory();
  const std::string job = [&] { return DirectoryLock(root).job(); }();
  {
    const FullQuota quota;
    EXPECT_THAT(message_of([&] { DirectoryLock lock(root); }, ExitCode::kResource),
                AllOf(HasSubstr("checkpoint: write fails"), HasSubstr(root + "/LOCK")));
  }
  const DirectoryLock again(root);
  EXPECT_EQ(again.job(), job);
  EXPECT_EQ(again.incarnation(), 2);
  EXPECT_EQ(content_of(root + "/LOCK"), job + " 0000000002\n");
}

}  // namespace
}  // namespace tributary::train
