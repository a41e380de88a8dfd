#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/plan_log/plan_record.h"

namespace tributary::memory {

/// A plan log on disk, which grows by one record a step.
class PlanLogFile {
 public:
  /// Goes on behind the whole records that are there; the file is made when it is not.
  ///
  /// errors: those of read_plan_log_file; Fault::kResource when it cannot be written
  explicit PlanLogFile(std::string path);
  ~PlanLogFile();
  PlanLogFile(const PlanLogFile&) = delete;
  PlanLogFile& operator=(const PlanLogFile&) = delete;

  /// The record is on disk when this returns. errors: Fault::kResource
  void append(const PlanRecord& record);

 private:
  std::string path_;
  std::uint32_t last_crc_ = 0;
  int file_ = -1;
};

/// The records of a log. errors: Fault::kInput naming the file, when it is not there or damaged
[[nodiscard]] std::vector<PlanRecord> read_plan_log_file(const std::string& path);

/// Drops the records of later steps, and a torn last one, by one rename. A missing file stays
/// missing, and one without a record left is removed.
void cut_plan_log(const std::string& path, std::uint64_t last_step);

}  // namespace tributary::memory
