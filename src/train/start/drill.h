#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "config/run/run_config.h"
#include "mesh/health/health.h"
#include "mesh/launch/launch.h"

namespace tributary::train {

/// A fault drill: strikes one rank at one place of one step, so that a team sees its job recover
/// before it must. What follows is what follows the real fault; nothing here softens it.
///
/// Strikes once, and never in an attempt after the first, so that the restarted job goes past the
/// place. `fail` raises Fault::kResource where it strikes; in a checkpoint that is a failed save.
class Drill {
 public:
  /// `options.fault` is not kNone.
  ///
  /// errors: Fault::kInput when the job has no such rank, or one rank and thus no collective
  Drill(const config::DrillSection& options, const mesh::Launch& launch);

  /// The line that says at the start what will happen.
  [[nodiscard]] const std::string& announcement() const { return announcement_; }

  /// Tells it that the main thread goes on to `section` of `step`.
  void enter(mesh::Section section, std::int64_t step);
  /// Tells it that the main thread comes to action `action` of its list.
  void on_action(std::int64_t step, std::int64_t action);
  /// Tells it that a collective is under way. From any thread.
  void on_collective();
  /// Tells it that this rank has written its part of a checkpoint, which is not committed yet.
  void on_written(std::int64_t step);

 private:
  void rest() const;
  void strike();

  const config::DrillSection options_;
  std::string announcement_;
  std::string place_;
  std::atomic<bool> is_armed_;  // on the rank that is struck, in the first attempt
  std::atomic<bool> waits_for_collective_ = false;
};

}  // namespace tributary::train
