#include "memory/plan_log/plan_log_file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tributary::memory {
namespace {

PlanRecord record_of(std::uint64_t step) {
  return {.step = step,
          .microbatches = {{.dp_rank = 1, .order = 0, .samples = {{.id = step * 2, .tokens = 9}}}}};
}

class PlanLogFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "plan_log_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove(path_);
  }
  void append(std::uint64_t first, std::uint64_t last) const {
    PlanLogFile log(path_);
    for (std::uint64_t step = first; step <= last; ++step) log.append(record_of(step));
  }
  void expect_steps(std::uint64_t last) const {
    const std::vector<PlanRecord> records = read_plan_log_file(path_);
    ASSERT_EQ(records.size(), last);
    for (std::uint64_t step = 1; step <= last; ++step)
      EXPECT_EQ(records[step - 1], record_of(step));
  }
  std::string path_;
};

TEST_F(PlanLogFileTest, GoesOnBehindWhatIsThere) {
  append(1, 2);
  append(3, 4);
  expect_steps(4);
}

TEST_F(PlanLogFileTest, GoesOnInPlaceOfARecordThatWasNotWrittenWhole) {
  append(1, 3);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 5);
  append(3, 3);
  expect_steps(3);
}

TEST_F(PlanLogFileTest, CutsLaterStepsSoThatOthersMayFollow) {
  append(1, 6);
  cut_plan_log(path_, 4);
  append(5, 5);
  expect_steps(5);
  cut_plan_log(path_, 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
  cut_plan_log(path_, 3);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(PlanLogFileTest, RefusesADamagedOneByItsName) {
  append(1, 3);
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(20).put('x');
  try {
    append(4, 4);
    FAIL() << "nothing was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    EXPECT_NE(std::string(error.what()).find(path_), std::string::npos);
  }
}

}  // namespace
}  // namespace tributary::memory
