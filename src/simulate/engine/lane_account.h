#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// What a lane does, or why it is idle.
enum class TimeUse {
  kCompute,
  kOptimizer,
  kCollective,            // within passes: tp, cp, sharded parameters
  kTransfer,              // waits for a message in flight
  kReduction,             // waits for its own gradient reduction
  kWaitActivation,        // idle: the stage before has not computed it yet
  kWaitGradient,          // idle: the next stage has not computed it yet
  kWaitFeatures,          // idle: an encoder has not computed them yet
  kWaitFeatureGradients,  // idle: the module that read the features has not
  kBackPressure,          // idle: the buffers of a message are full
  kWaitReplicas,          // idle: another lane is late at a reduction or the step
  kOtherModule,           // idle: its ranks run the other module that they have
  kDone,                  // idle: other lanes are still working
  kWaitPlan,              // idle: the next step has not been planned yet
};
inline constexpr std::size_t kTimeUses = 14;

[[nodiscard]] std::string_view name_of(TimeUse use);

/// Compute and optimizer are busy, the next three communication, the rest idle.
enum class TimeClass { kBusy, kCommunication, kIdle };
[[nodiscard]] TimeClass class_of(TimeUse use);

/// The uses of one lane's time; they add up to the makespan.
struct LaneAccount {
  std::array<Nanoseconds, kTimeUses> time = {};

  [[nodiscard]] Nanoseconds& operator[](TimeUse use) { return time[static_cast<std::size_t>(use)]; }
  [[nodiscard]] Nanoseconds operator[](TimeUse use) const {
    return time[static_cast<std::size_t>(use)];
  }
  [[nodiscard]] Nanoseconds total(TimeClass of) const;
  [[nodiscard]] Nanoseconds total() const;
  LaneAccount& operator+=(const LaneAccount& other);
};

/// Accounts for every nanosecond of every lane of a step that ended.
///
/// shape:  [lanes]
/// errors: Fault::kBug when lanes are blocked
[[nodiscard]] std::vector<LaneAccount> account_lanes(const StepProgram& program,
                                                     const StepLoad& load, const StepTimes& times);

/// What all ranks do in a step; a rank with two lanes counts once.
struct RanksAccount {
  LaneAccount uses = {};  // of all lanes, times ranks, without kOtherModule; on a rank
                          // with two lanes both add their causes of idle time
  Nanoseconds time = {};  // of the step, times ranks

  /// The fraction of the time in a class.
  [[nodiscard]] double share(TimeClass of) const;
};

/// shape: accounts and ranks [lanes]
[[nodiscard]] RanksAccount account_ranks(const schedule::PipelineMap& map,
                                         std::span<const LaneAccount> accounts,
                                         std::span<const std::int64_t> ranks);

}  // namespace tributary::simulate
