#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/units.h"
#include "memory/protocol/event.h"

namespace tributary::memory {

/// What goes wrong: probabilities per message, and numbers of events drawn over the first seconds.
struct SimulatedFaults {
  double drop = 0, duplicate = 0, corrupt = 0, encode_failure = 0;
  Nanoseconds max_delay{5'000'000};  // of a message; long ones reorder
  int producer_kills = 0, producer_stops = 0, partitions = 0;
  int broken_links = 0;  // of members to the controller, which are opened again
  Nanoseconds longest_break{1'000'000'000};
  int consumer_kills = 0, controller_kills = 0;
};

/// A job of the pool in small: its processes, its data and its faults follow from two seeds.
struct SimulatedWorkload {
  std::uint64_t seed = 0;       // of faults, delays and crashes
  std::uint64_t data_seed = 0;  // of samples and their sizes
  std::uint16_t producers = 1, consumers = 1;
  std::uint64_t steps = 6, window = 2, ahead = 1;
  std::uint32_t pages = 16;         // of each producer's segment
  std::uint32_t reserve_pages = 2;  // of the largest object
  std::uint32_t encoders = 1;
  std::uint64_t checkpoint_every = 3;       // steps
  bool lends = false;                       // the last producer makes only what the others need
  std::size_t frame_bytes = kMaxBodyBytes;  // of a body; small ones cut PLAN and ASSIGN into parts
  Nanoseconds patience{};                   // with a step, of the consumers; 0: without end
  SimulatedFaults faults;
};

/// Draws a workload with the smallest capacity that survives the loss of one producer.
[[nodiscard]] SimulatedWorkload draw_workload(std::uint64_t seed);

/// What a step is made of: a function of the data seed and the step.
[[nodiscard]] StepPlanned plan_of(const SimulatedWorkload& workload, std::uint64_t step);
/// The object that its producers need for all others of a step, where one lends.
[[nodiscard]] Key lent_key(std::uint64_t step);
/// The bytes of an object, which follow from its key; below `pages` pages.
[[nodiscard]] std::vector<std::byte> bytes_of(const Key& key, std::uint32_t pages);

inline constexpr std::uint32_t kSimulatedPageBytes = 64;

}  // namespace tributary::memory
