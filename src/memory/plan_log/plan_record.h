#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"

namespace tributary::memory {

struct PlannedSample {
  std::uint64_t id = 0;
  std::uint32_t tokens = 0;

  friend bool operator==(const PlannedSample&, const PlannedSample&) = default;
};

struct PlanRecordMicrobatch {
  std::uint32_t dp_rank = 0, order = 0;
  std::vector<PlannedSample> samples = {};

  friend bool operator==(const PlanRecordMicrobatch&, const PlanRecordMicrobatch&) = default;
};

/// What one step is made of, as the plan log keeps it.
struct PlanRecord {
  std::uint64_t step = 0;
  std::uint32_t dataset_epoch = 0;
  std::vector<PlanRecordMicrobatch> microbatches = {};

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

/// The bytes of one record: {u32 bytes, u32 crc32c, body}. The body begins with step, data set
/// epoch and `previous_crc`, the checksum of the record before it (0 for the first): so records
/// form a chain.
[[nodiscard]] std::vector<std::byte> record_bytes(const PlanRecord& record,
                                                  std::uint32_t previous_crc);

/// The checksum of those bytes, for the record behind it.
[[nodiscard]] std::uint32_t crc_of(std::span<const std::byte> record);

/// The records of a log file.
struct PlanLogContent {
  std::vector<PlanRecord> records = {};
  std::uint64_t whole_bytes = 0;  // up to the end of the last whole record
  std::uint32_t last_crc = 0;     // for the next record
};

/// Reads a log. A last record that was not written whole is left out; any other damage is an error.
///
/// errors: Refusal with the offset and what is wrong there
[[nodiscard]] Result<PlanLogContent> read_plan_log(std::span<const std::byte> log);

}  // namespace tributary::memory
