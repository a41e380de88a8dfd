#pragma once

#include <functional>
#include <string>

#include "core/exit_code.h"
#include "train/checkpoint/checkpoint.h"

namespace tributary::train {

/// The state of a small run after `step`: about 45 KiB of several types, a function of the step.
[[nodiscard]] CheckpointContent small_run(std::int64_t step);

/// A fresh directory named after the test that runs.
[[nodiscard]] std::string scratch_directory();

/// Loads the checkpoint and compares everything in it, bit for bit, with small_run of its step.
/// Returns that step. A difference is a test failure.
std::int64_t load_and_compare(const std::string& directory, FileSystem& files = real_file_system());

/// Runs `action`, which must raise an Error with this exit code; returns its message.
std::string message_of(const std::function<void()>& action, ExitCode expected);

}  // namespace tributary::train
