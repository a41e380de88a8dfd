#include "memory/plan_log/plan_record.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "core/file/crc32c.h"

namespace tributary::memory {
namespace {

std::vector<PlanRecord> make_records() {
  std::vector<PlanRecord> records;
  for (std::uint64_t step = 0; step < 3; ++step)
    records.push_back(
        {.step = step,
         .dataset_epoch = 1,
         .microbatches = {{.dp_rank = 0,
                           .order = 0,
                           .samples = {{.id = step * 10, .tokens = 7}, {.id = step * 10 + 1}}},
                          {.dp_rank = 1, .order = 0, .samples = {{.id = step * 10 + 2}}}}});
  return records;
}

/// The log, and where each record ends.
std::pair<std::vector<std::byte>, std::vector<std::size_t>> make_log() {
  std::vector<std::byte> log;
  std::vector<std::size_t> ends;
  std::uint32_t previous_crc = 0;
  for (const PlanRecord& record : make_records()) {
    const std::vector<std::byte> bytes = record_bytes(record, previous_crc);
    previous_crc = crc32c(std::span(bytes).subspan(8));
    log.insert(log.end(), bytes.begin(), bytes.end());
    ends.push_back(log.size());
  }
  return {log, ends};
}

TEST(PlanLog, GivesBackItsRecords) {
  const auto [log, ends] = make_log();
  const PlanLogContent content = read_plan_log(log).value();
  EXPECT_EQ(content.records, make_records());
  EXPECT_EQ(content.whole_bytes, log.size());
  EXPECT_TRUE(read_plan_log({}).value().records.empty());
}

TEST(PlanLog, CutsOffATornRecordWhereverItEnds) {
  const auto [log, ends] = make_log();
  for (std::size_t length = 0; length <= log.size(); ++length) {
    const auto whole =
        static_cast<std::size_t>(std::ranges::upper_bound(ends, length) - ends.begin());
    std::vector<std::byte> torn(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(length));
    const auto expect_whole_ones = [&] {
      const PlanLogContent content = read_plan_log(torn).value();
      EXPECT_EQ(content.records.size(), whole) << length;
      EXPECT_EQ(content.whole_bytes, whole == 0 ? 0 : ends[whole - 1]) << length;
    };
    expect_whole_ones();
    if (whole == ends.size()) continue;
    torn.resize(ends[whole]);  // the file was made longer, the bytes never came
    const bool is_whole = std::ranges::equal(torn, std::span(log).first(ends[whole]));
    if (!is_whole) expect_whole_ones();
  }
}

TEST(PlanLog, RefusesADamagedBitBeforeTheLastRecord) {
  auto [log, ends] = make_log();
  for (std::size_t bit = 0; bit < ends[1] * 8; ++bit) {
    log[bit / 8] ^= std::byte{1} << bit % 8;
    const Result<PlanLogContent> content = read_plan_log(log);
    // A length that grew past the end of the file looks like a torn record: the ones before it
    // hold.
    if (content) {
      EXPECT_EQ(content.value().records.size(), bit / 8 < ends[0] ? 0 : 1) << bit;
      EXPECT_TRUE(bit / 8 < 4 || (bit / 8 >= ends[0] && bit / 8 < ends[0] + 4)) << bit;
    }
    log[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

TEST(PlanLog, RefusesARecordThatDoesNotFollowTheOneBefore) {
  auto [log, ends] = make_log();
  log.erase(log.begin() + static_cast<std::ptrdiff_t>(ends[0]),
            log.begin() + static_cast<std::ptrdiff_t>(ends[1]));
  const Result<PlanLogContent> content = read_plan_log(log);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.refusal().reason, "memory: plan log: record at byte " +
                                          std::to_string(ends[0]) +
                                          ": it does not follow the record before it");
}

}  // namespace
}  // namespace tributary::memory
