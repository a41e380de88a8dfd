#pragma once

#include <cstdint>
#include <string>

#include "core/handle.h"

namespace tributary::train {

/// Holds a checkpoint directory for one job: an exclusive flock on `<root>/LOCK`, which names the
/// job and counts its starts. The system frees it when the process ends, however it ends.
class DirectoryLock {
 public:
  /// Keeps the job's name if the directory has one, else draws one.
  ///
  /// errors: Fault::kInput at once when another process holds it; Fault::kResource
  explicit DirectoryLock(const std::string& root);

  [[nodiscard]] const std::string& job() const { return job_; }
  /// 1 for the first start in this directory.
  [[nodiscard]] std::int64_t incarnation() const { return incarnation_; }

 private:
  Descriptor file_;
  std::string job_;
  std::int64_t incarnation_ = 0;
};

}  // namespace tributary::train
