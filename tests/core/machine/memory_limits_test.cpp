#include "core/machine/memory_limits.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tributary {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// The files of a machine, as its kernel would write them.
class MemoryLimits : public testing::Test {
 protected:
  MemoryLimits() {
    write("proc/meminfo",
          "MemTotal: 9 kB\nMemAvailable:   12582912 kB\nSwapFree:        1048576 kB\n");
    write("proc/self/statm", "0 0 0\n");
  }
  ~MemoryLimits() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  [[nodiscard]] std::vector<MemoryLimit> list() const {
    return list_memory_limits(
        {.proc = (root_ / "proc").string(), .groups = (root_ / "groups").string()});
  }
  /// The memory left under the limit `name`; negative when it is not listed.
  [[nodiscard]] std::int64_t left(const std::string& name) const {
    for (const MemoryLimit& limit : list())
      if (limit.name.find(name) != std::string::npos) return limit.left.count;
    return -1;
  }

 private:
  fs::path root_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(MemoryLimits, OfTheMachineIsWhatIsAvailableAndTheSwap) {
  EXPECT_EQ(left("machine"), 13 * kGiB);
  EXPECT_EQ(left("control group"), -1);
  EXPECT_EQ(left("ulimit"), -1);
}

TEST_F(MemoryLimits, OfAGroupIsTheTightestOfThoseAroundItWithoutCaches) {
  write("proc/self/cgroup", "0::/job/rank\n");
  write("groups/job/rank/memory.max", "max\n");
  write("groups/job/rank/memory.current", "1\n");
  write("groups/job/memory.max", std::to_string(8 * kGiB));
  write("groups/job/memory.current", std::to_string(5 * kGiB));
  write("groups/job/memory.stat", "anon 5\ninactive_file " + std::to_string(2 * kGiB) + "\n");
  EXPECT_EQ(left("control group"), 5 * kGiB);
}

TEST_F(MemoryLimits, OfVersion1IsThatOfItsMemoryController) {
  write("proc/self/cgroup", "9:cpu:/a\n8:memory:/a\n");
  write("groups/memory/a/memory.limit_in_bytes", std::to_string(4 * kGiB));
  write("groups/memory/a/memory.usage_in_bytes", std::to_string(kGiB));
  write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("groups/memory/memory.usage_in_bytes", std::to_string(kGiB));
  EXPECT_EQ(left("control group"), 3 * kGiB);
}

TEST_F(MemoryLimits, OfUlimitIsOfThisProcessAlone) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(64 * kGiB);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const std::vector<MemoryLimit> limits = list();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_EQ(limits.back().name, "left of ulimit -v");
  EXPECT_EQ(share_of(limits.back(), 4).count, 64 * kGiB);
  EXPECT_EQ(share_of(limits.front(), 4).count, 13 * kGiB / 4);
}

TEST(DescribeBytes, TakesTheUnitThatAPersonWould) {
  EXPECT_EQ(describe_bytes({812}), "812 B");
  EXPECT_EQ(describe_bytes({4'700'000}), "4.5 MiB");
  EXPECT_EQ(describe_bytes({57 * kGiB + kGiB / 4}), "57.2 GiB");
}

}  // namespace
}  // namespace tributary
