#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"
#include "memory/plan_log/plan_record.h"

namespace tributary::train {

/// A sample that the next step may be made of.
struct Arrival {
  std::int64_t id = 0;
  std::int32_t replica = 0;  // that trains on it
  Tokens tokens;
  bool is_ready = false;  // its features are made, or nobody makes them
  bool is_due = false;    // it may wait no longer
};

/// Chooses `count` samples of the next step: those that are due, then ready ones, then others. Each
/// goes to the replica with the fewest tokens so far that has one; of its own the first by id.
///
/// A replica packs the ready ones first, each sample into the fullest microbatch that has room
/// (schedule::pack_online); microbatches run in the order in which they got their last sample. So
/// those that wait for features come last.
///
/// shape: arrivals ascend by id
/// errors: Fault::kInput for a sample longer than the capacity
[[nodiscard]] std::vector<memory::PlanRecordMicrobatch> choose_arrivals(
    std::span<const Arrival> arrivals, std::int64_t count, std::int64_t replicas, Tokens capacity);

/// Microbatches of samples that come one after the other. shape: bins of places in `lengths`
[[nodiscard]] std::vector<std::vector<std::int32_t>> pack_arrivals(std::span<const Tokens> lengths,
                                                                   Tokens capacity);

}  // namespace tributary::train
