#pragma once

#include <vector>

#include "core/units.h"
#include "simulate/program/step_program.h"

namespace tributary::simulate {

/// The times and sizes of one step's actions.
struct StepLoad {
  std::vector<Nanoseconds> duration;  // [actions]; ignored for sends, receives and hand-overs
  std::vector<Nanoseconds> exposed;   // [actions] the part that is communication; empty: none
  std::vector<Bytes> bytes;           // [messages]; empty: the sizes in the lists

  std::vector<Nanoseconds> begins = {};  // [lanes] when the lane is free; empty: at 0
  std::vector<Nanoseconds> vacant = {};  // [messages] when the pool has room for it, for those that
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

/// A link on a route; a route has each link once.
struct LinkUse {
  int link = 0;
  double weight = 1;  // bytes that cross the link for each byte of the message
};

/// How messages of one channel travel. A message that shares no link takes latency + bytes / rate.
struct Route {
  Nanoseconds latency = {};
  double bytes_per_ns = 0;  // of a message that shares no link; 0: bytes take no time
  std::vector<LinkUse> links = {};
  int capacity = 0;  // max messages in a pool; 0: no pool, the receiver has buffers
};

/// The routes of all channels.
struct Network {
  std::vector<Route> routes;         // [channels]
  std::vector<double> bytes_per_ns;  // [links] shared by all messages on them, max-min fair
  double overlap_slowdown = 1;       // of a pass beside a gradient reduction of its lane
  double cores = 0;                  // of each machine, shared by its lanes; 0: not shared
  std::vector<int> machine = {};     // [lanes], when cores are shared
  std::vector<double> threads = {};  // [lanes] threads in a pass, when cores are shared

  /// Whether nothing is shared, so that a message takes the same time whatever else happens.
  [[nodiscard]] bool is_unshared() const {
    return bytes_per_ns.empty() && overlap_slowdown <= 1 && cores <= 0;
  }
};

/// For each channel the rate of a message that shares no link: the min over route and links.
///
/// shape: [channels]
[[nodiscard]] std::vector<double> rates_alone(const Network& network);

/// Rounds a time that is not negative up to whole nanoseconds.
[[nodiscard]] inline Nanoseconds round_up(double nanoseconds) {
  const auto whole = static_cast<std::int64_t>(nanoseconds);
  return {whole + (static_cast<double>(whole) < nanoseconds ? 1 : 0)};
}

/// Time of a message at a steady rate, or at the route's own; at rate 0 its bytes take no time.
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
