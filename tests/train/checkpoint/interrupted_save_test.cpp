#include <cerrno>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/train/checkpoint/memory_file_system.h"
#include "tests/train/checkpoint/small_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/retention.h"

namespace tributary::train {
namespace {

namespace fs = std::filesystem;
using Fault = FaultyFileSystem::Fault;

void save_step(FileSystem& files, const std::string& root, std::int64_t step, std::int64_t start,
               bool async = false) {
  CheckpointWriter writer({.root = root, .keep_best = false, .async = async, .start_step = start},
                          files);
  writer.save(small_run(step));
  writer.finish();
}

/// A disk with steps 1 and 2. The save of step 3 will retire step 1.
MemoryFileSystem disk_with_two_steps(const std::string& root) {
  MemoryFileSystem disk;
  make_directories(disk, root);
  save_step(disk, root, 1, 0);
  save_step(disk, root, 2, 1);
  return disk.copy();
}

/// Checks that every listed checkpoint is whole and the newest is the old or the new one. Returns
/// it.
std::int64_t expect_old_or_new(FileSystem& files, const std::string& root) {
  const std::vector<std::int64_t> steps = committed_steps(files, root);
  EXPECT_FALSE(steps.empty());
  for (const std::int64_t step : steps)
    EXPECT_EQ(load_and_compare(str(root, "/", step_name(step)), files), step);
  const std::int64_t newest = steps.empty() ? 0 : steps.front();
  EXPECT_TRUE(newest == 2 || newest == 3) << newest;
  return newest;
}

/// Saves once more, as the next start would, and finds nothing left of the interrupted save.
void expect_next_save_succeeds(FileSystem& files, const std::string& root, std::int64_t newest) {
  save_step(files, root, newest + 1, newest);
  EXPECT_EQ(load_and_compare(str(root, "/", step_name(newest + 1)), files), newest + 1);
  for (const std::string& name : list_directory(files, root))
    EXPECT_TRUE(step_of(name) || name == "LATEST" || name == "LOCK") << name;
}

TEST(InterruptedSave, ByPowerCutLeavesTheOldOrTheNew) {
  const std::string root = scratch_directory();
  const MemoryFileSystem before = disk_with_two_steps(root);
  MemoryFileSystem after = before.copy();
  save_step(after, root, 3, 2);
  const std::vector<DiskOperation>& record = after.record();
  int old_ones = 0;
  int new_ones = 0;
  int disks = 0;
  for (std::size_t done = 0; done <= record.size(); ++done) {
    for (MemoryFileSystem& disk : disks_after_power_cut(before, record, done, /*most=*/12, 1)) {
      SCOPED_TRACE(str("after ", done, " of ", record.size(), " operations, disk ", disks));
      const std::int64_t newest = expect_old_or_new(disk, root);
      ++(newest == 2 ? old_ones : new_ones);
      if (disks++ % 5 == 0) expect_next_save_succeeds(disk, root, newest);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(old_ones, 100);
  EXPECT_GT(new_ones, 20);
  RecordProperty("disks", disks);
  std::cout << record.size() << " operations, " << disks << " disks, " << old_ones << " old, "
            << new_ones << " new\n";
}

TEST(InterruptedSave, WithoutSyncsIsNoticedByTheSameTest) {
  const std::string root = scratch_directory();
  const MemoryFileSystem before = disk_with_two_steps(root);
  MemoryFileSystem after = before.copy();
  save_step(after, root, 3, 2);
  std::vector<DiskOperation> record = after.record();
  std::erase_if(record, [](const DiskOperation& operation) {
    return operation.kind == DiskOperation::Kind::kSync ||
           operation.kind == DiskOperation::Kind::kSyncDirectory;
  });
  int refused = 0;
  for (std::size_t done = 0; done <= record.size(); done += 3) {
    for (MemoryFileSystem& disk : disks_after_power_cut(before, record, done, /*most=*/12, 1)) {
      for (const std::int64_t step : committed_steps(disk, root)) {
        try {
          EXPECT_EQ(load_and_compare(str(root, "/", step_name(step)), disk), step);
        } catch (const Error& error) {  // a clean refusal, never a mixed state
          EXPECT_EQ(error.exit_code(), ExitCode::kCheckpointRefused) << error.what();
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 0) << "the power cut must be able to damage something";
}

TEST(InterruptedSave, ByAFailingCallLeavesTheOldOrTheNew) {
  const std::string root = scratch_directory();
  const MemoryFileSystem before = disk_with_two_steps(root);
  testing::internal::CaptureStderr();
  for (const int error : {ENOSPC, EIO}) {
    for (const bool stays : {false, true}) {
      for (std::int64_t at = 0;; ++at) {
        SCOPED_TRACE(str("errno ", error, " at call ", at, stays ? " and after" : ""));
        MemoryFileSystem disk = before.copy();
        FaultyFileSystem faulty(disk, Fault::kError, at, error, stays);
        bool raised = false;
        try {
          save_step(faulty, root, 3, 2);
        } catch (const Error& failure) {
          raised = true;
          EXPECT_EQ(failure.exit_code(), ExitCode::kResource) << failure.what();
        }
        const std::int64_t newest = expect_old_or_new(disk, root);
        EXPECT_TRUE(raised || newest == 3) << "what did not fail is there";
        if (at % 4 == 0) expect_next_save_succeeds(disk, root, newest);
        ASSERT_FALSE(testing::Test::HasFailure());
        if (faulty.calls() <= at) break;  // past the last call
      }
    }
  }
  (void)testing::internal::GetCapturedStderr();
}

TEST(InterruptedSave, TakesInterruptedAndShortCallsUpAgain) {
  const std::string root = scratch_directory();
  MemoryFileSystem clean = disk_with_two_steps(root);
  const MemoryFileSystem before = clean.copy();
  save_step(clean, root, 3, 2);
  const std::string shard = root + "/step-3/optim/shard-00001-model-00001-of-00001.safetensors";
  for (const Fault fault : {Fault::kInterrupt, Fault::kShort}) {
    for (std::int64_t at = 0;; ++at) {
      MemoryFileSystem disk = before.copy();
      FaultyFileSystem faulty(disk, fault, at);
      save_step(faulty, root, 3, 2);
      EXPECT_EQ(disk.content().at(shard), clean.content().at(shard)) << "call " << at;
      EXPECT_EQ(load_and_compare(root + "/step-3", disk), 3) << "call " << at;
      if (faulty.calls() <= at) break;
    }
  }
}

TEST(InterruptedLoad, TakesShortReadsUpAgainAndNamesFailingOnes) {
  const std::string root = scratch_directory();
  MemoryFileSystem disk = disk_with_two_steps(root);
  FaultyFileSystem counting(disk, Fault::kShort, /*at=*/-1);
  EXPECT_EQ(load_and_compare(root + "/step-2", counting), 2);
  for (const Fault fault : {Fault::kInterrupt, Fault::kShort, Fault::kError}) {
    for (std::int64_t at = 0;; ++at) {
      FaultyFileSystem faulty(disk, fault, at, EIO);
      const auto load = [&] { EXPECT_EQ(load_and_compare(root + "/step-2", faulty), 2); };
      if (fault == Fault::kError && at < counting.calls()) {
        EXPECT_THAT(message_of(load, ExitCode::kResource),
                    testing::HasSubstr("Input/output error"));
      } else {
        load();
      }
      if (faulty.calls() <= at) break;
    }
  }
}

/// Saves step 3 in a child process that is killed at its call number `at`. True if it was killed.
bool save_in_killed_child(const std::string& root, std::int64_t at, bool async) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyFileSystem killing(real_file_system(), Fault::kKill, at);
    save_step(killing, root, 3, 2, async);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return true;
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  return false;
}

TEST(InterruptedSave, ByKillAtEveryCallLeavesTheOldOrTheNew) {
  // In memory where that is possible: a kill loses nothing that was written, so syncs only cost.
  const std::string base = fs::exists("/dev/shm") ? str("/dev/shm/tributary_kill_test.", ::getpid())
                                                  : scratch_directory();
  save_step(real_file_system(), base + "/start", 1, 0);
  save_step(real_file_system(), base + "/start", 2, 1);
  int old_ones = 0;
  int new_ones = 0;
  for (std::int64_t at = 0;; ++at) {
    SCOPED_TRACE(str("killed at call ", at));
    const std::string root = base + "/run";
    fs::remove_all(root);
    fs::copy(base + "/start", root, fs::copy_options::recursive);
    const bool killed = save_in_killed_child(root, at, /*async=*/at % 2 == 1);
    const std::int64_t newest = expect_old_or_new(real_file_system(), root);
    ++(newest == 2 ? old_ones : new_ones);
    expect_next_save_succeeds(real_file_system(), root, newest);
    ASSERT_FALSE(testing::Test::HasFailure());
    if (!killed) break;
  }
  fs::remove_all(base);
  std::cout << old_ones + new_ones << " kills: " << old_ones << " old, " << new_ones << " new\n";
  EXPECT_GT(old_ones, 30);
  EXPECT_GT(new_ones, 10);
}

}  // namespace
}  // namespace tributary::train
