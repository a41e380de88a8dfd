#include "train/checkpoint/watched_files.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

#include <ATen/ATen.h>

#include "tests/train/checkpoint/memory_file_system.h"
#include "tests/train/checkpoint/small_run.h"

namespace tributary::train {
namespace {

/// A disk that counts and keeps nothing.
class CountingDisk final : public MemoryFileSystem {
 public:
  std::int64_t write(std::int64_t, std::span<const std::byte> bytes) override {
    largest = std::max<std::uint64_t>(largest, bytes.size());
    unsynced += bytes.size();
    max_unsynced = std::max(max_unsynced, unsynced);
    return static_cast<std::int64_t>(bytes.size());
  }
  std::int64_t fsync(std::int64_t) override {
    unsynced = 0;
    return sync_result;
  }
  std::uint64_t largest = 0;
  std::uint64_t unsynced = 0;
  std::uint64_t max_unsynced = 0;
  std::int64_t sync_result = 0;
};

TEST(WatchedFiles, CutsALongWriteAndReportsEachPart) {
  CountingDisk disk;
  int reports = 0;
  WatchedFiles files(disk, [&] { ++reports; });
  const std::vector<std::byte> bytes(WatchedFiles::kMaxWritten * 2 + 5);
  OutputFile file(files, "/big");
  reports = 0;
  file.append(bytes);
  EXPECT_EQ(reports, 3);
  EXPECT_EQ(disk.largest, WatchedFiles::kMaxWritten);
  EXPECT_EQ(file.bytes(), bytes.size());
}

TEST(WatchedFiles, LeavesLittleToTheSyncAtTheEnd) {
  CountingDisk disk;
  WatchedFiles files(disk, {});
  const std::vector<std::byte> bytes(WatchedFiles::kMaxWritten);
  OutputFile file(files, "/big");
  for (int i = 0; i < 200; ++i) file.append(bytes);  // 800 MiB
  EXPECT_LE(disk.max_unsynced, WatchedFiles::kMaxUnsynced + WatchedFiles::kMaxWritten);
  EXPECT_GE(disk.max_unsynced, WatchedFiles::kMaxUnsynced);
  disk.sync_result = -5;  // EIO: what was written is lost, so that no more is
  EXPECT_EQ(files.write(3, bytes), static_cast<std::int64_t>(bytes.size()));
}

TEST(WatchedFiles, FailsAWriteWhoseSyncFails) {
  CountingDisk disk;
  disk.sync_result = -5;
  WatchedFiles files(disk, {});
  const std::vector<std::byte> bytes(WatchedFiles::kMaxWritten);
  std::int64_t written = 0;
  for (int i = 0; i < 100 && written >= 0; ++i) written = files.write(3, bytes);
  EXPECT_EQ(written, -5);
}

TEST(WatchedFiles, ReportsEveryCallWhileItIsWatched) {
  MemoryFileSystem disk;
  int reports = 0;
  WatchedFiles files(disk, [&] { ++reports; });
  const std::string root = scratch_directory();
  make_directories(files, root);
  CheckpointWriter({.root = root, .async = false}, files).save(small_run(3));
  // Four files and a manifest, each made, written and synced.
  EXPECT_GE(reports, 15);
  EXPECT_EQ(load_and_compare(root + "/step-3", files), 3);
  reports = 0;
  files.set_watched(false);
  EXPECT_TRUE(exists(files, root));
  EXPECT_EQ(reports, 0);
}

}  // namespace
}  // namespace tributary::train
