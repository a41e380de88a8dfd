#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "core/random.h"
#include "memory/simulate/workload.h"

namespace tributary::memory {

/// Events in the order of a virtual clock; of two at the same time the one that was set first.
class VirtualClock {
 public:
  void at(TimePoint time, std::function<void()> run);
  void after(Nanoseconds delay, std::function<void()> run) { at(now_ + delay, std::move(run)); }
  /// Runs the next event; false when there is none.
  bool run_next();
  [[nodiscard]] TimePoint now() const { return now_; }

 private:
  struct Entry {
    TimePoint time;
    std::uint64_t sequence;
    std::function<void()> run;
    bool operator<(const Entry& other) const {  // the queue gives the greatest first
      return std::pair(other.time, other.sequence) < std::pair(time, sequence);
    }
  };
  TimePoint now_{};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Entry> queue_;
};

/// Carries frames between processes and loses, repeats, delays, reorders and damages them.
class VirtualNetwork {
 public:
  using Arrive = std::function<void(std::vector<std::byte>)>;

  VirtualNetwork(VirtualClock& clock, const SimulatedFaults& faults, std::uint64_t seed)
      : clock_(clock), faults_(faults), draw_(seed, "network") {}

  /// Calls `arrive` with the bytes, later, as often as they come through.
  void carry(std::uint16_t from, std::uint16_t to, std::vector<std::byte> bytes, Arrive arrive);
  /// Nothing goes from one process to the other until then.
  void cut(std::uint16_t from, std::uint16_t to, TimePoint until) { cuts_[{from, to}] = until; }
  /// The connection of two processes breaks: what is on its way is lost too, in both directions.
  void break_link(std::uint16_t one, std::uint16_t other, TimePoint until);

 private:
  VirtualClock& clock_;
  SimulatedFaults faults_;
  RandomStream draw_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, TimePoint> cuts_, breaks_;
};

}  // namespace tributary::memory
