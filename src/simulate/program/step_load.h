#pragma once

#include <vector>

#include "core/units.h"
#include "simulate/program/step_program.h"

namespace tributary::simulate {

/// What the actions of one step take.
struct StepLoad {
  std::vector<Nanoseconds> duration;  // [actions]; of sends, receives and hand-overs not read
  std::vector<Nanoseconds> exposed;   // [actions] part of it that is communication; empty: none
  std::vector<Bytes> bytes;           // [messages]; empty: those of the lists

  std::vector<Nanoseconds> begins = {};  // [lanes] when the lane is free; empty: at 0
  std::vector<Nanoseconds> vacant = {};  // [messages] when the pool has room for it, of those that
                                         // find it as the step before left it; empty: at 0

  [[nodiscard]] Nanoseconds begin_of(int lane) const {
    return begins.empty() ? Nanoseconds{} : begins[lane];
  }
  [[nodiscard]] Nanoseconds vacant_at(int message) const {
    return vacant.empty() ? Nanoseconds{} : vacant[message];
  }
  [[nodiscard]] Bytes bytes_of(const StepProgram& program, int message) const {
    return bytes.empty() ? program.bytes_of(message) : bytes[message];
  }
};

/// A part of a way that messages share; a way has it once.
struct LinkUse {
  int link = 0;
  double weight = 1;  // bytes that cross the link for each byte of the message
};

/// How messages of one channel travel. A message takes latency + bytes / rate when it is alone.
struct Route {
  Nanoseconds latency = {};
  double bytes_per_ns = 0;  // of a message that has the way to itself; 0: bytes take no time
  std::vector<LinkUse> links = {};
  int capacity = 0;  // messages that a pool keeps; 0: no pool, the receiver has buffers
};

/// The ways of all channels.
struct Network {
  std::vector<Route> routes;         // [channels]
  std::vector<double> bytes_per_ns;  // [links] shared by all messages on them, max-min fair
  double overlap_slowdown = 1;       // of a pass beside a gradient reduction of its lane
  double cores = 0;                  // of each machine, shared by the lanes on it; 0: not shared
  std::vector<int> machine = {};     // [lanes], with cores
  std::vector<double> threads = {};  // [lanes] that compute in a pass, with cores

  /// Nothing is shared, so that a message takes as long whatever else happens.
  [[nodiscard]] bool is_unshared() const {
    return bytes_per_ns.empty() && overlap_slowdown <= 1 && cores <= 0;
  }
};

/// The rate of a message on each channel that has its way to itself: the least of the way and the
/// links on it.
///
/// shape: [channels]
[[nodiscard]] std::vector<double> rates_alone(const Network& network);

/// Whole nanoseconds, rounded up, of a time from 0 up.
[[nodiscard]] inline Nanoseconds round_up(double nanoseconds) {
  const auto whole = static_cast<std::int64_t>(nanoseconds);
  return {whole + (static_cast<double>(whole) < nanoseconds ? 1 : 0)};
}

/// Time that a message takes at a steady rate, or at the route's own; at none its bytes take no
/// time.
[[nodiscard]] inline Nanoseconds travel_time(Nanoseconds latency, double bytes_per_ns,
                                             Bytes bytes) {
  return bytes_per_ns <= 0 ? latency
                           : latency + round_up(static_cast<double>(bytes.count) / bytes_per_ns);
}
[[nodiscard]] inline Nanoseconds travel_time(const Route& route, Bytes bytes) {
  return travel_time(route.latency, route.bytes_per_ns, bytes);
}

/// errors: Fault::kInput naming what is not a size, not finite, or below 0
void check_load(const StepProgram& program, const StepLoad& load, const Network& network);

}  // namespace tributary::simulate
