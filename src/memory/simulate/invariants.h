#pragma once

#include <cstdint>
#include <map>

#include "memory/simulate/simulated_process.h"

namespace tributary::memory {

/// Asserts after every event what always holds. Remembers what may only grow.
///
/// errors: Fault::kBug with the number of the invariant
class Invariants {
 public:
  void check(const SimulatedProcess& process);

 private:
  struct Memory {  // of one life of one process
    std::uint64_t low = 0, generation = 0;
    std::map<SlotId, ObjectState> states;
    std::uint64_t newest_slot = 0;
  };
  void check_owner(const SimulatedProcess& process, Memory& memory);
  static void check_pages(const ObjectTable& objects);
  static void check_leases(const SimulatedProcess& process);
  static void check_states(const ObjectTable& objects, Memory& memory);
  static void check_controller(const ControllerCore& controller, Memory& memory);

  std::map<std::pair<std::uint16_t, std::uint64_t>, Memory> memories_;
};

}  // namespace tributary::memory
