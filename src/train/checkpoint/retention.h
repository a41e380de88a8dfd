#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/file/file_system.h"

namespace tributary::train {

/// `step-<n>`, the number plain.
[[nodiscard]] std::string step_name(std::int64_t step);
/// The step of a directory named by step_name; nothing for any other name.
[[nodiscard]] std::optional<std::int64_t> step_of(const std::string& name);
/// Steps committed below `root`, newest first.
[[nodiscard]] std::vector<std::int64_t> committed_steps(FileSystem& files, const std::string& root);

struct RetentionPolicy {
  int keep_latest = 2;
  bool keep_best = true;
};

/// Removes what the policy does not keep: the newest keep_latest stay, and the one with the highest
/// score. Each is renamed to `.trash-<name>` before anything in it is removed, so no checkpoint is
/// ever half there. Call only after a commit.
void retire_checkpoints(FileSystem& files, const std::string& root, const RetentionPolicy& policy);

/// Removes what a dead process left: `.trash-*`, and temporaries of older incarnations of this job.
/// Returns the temporaries of other jobs, which stay.
[[nodiscard]] std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& root,
                                                        const std::string& job);

}  // namespace tributary::train
