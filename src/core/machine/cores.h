#pragma once

#include <cstdint>
#include <vector>

namespace tributary {

/// The ids of the cores that this process was given when it started, ascending. Binding changes
/// `std::thread::hardware_concurrency`, but not this.
[[nodiscard]] const std::vector<int>& usable_cores();

/// Part `part` of `parts` equal runs of consecutive cores. With more parts than cores, each part is
/// one core, assigned round-robin, so that processes with adjacent numbers get different cores.
[[nodiscard]] std::vector<int> part_of_cores(const std::vector<int>& usable, int part, int parts);

/// Compute threads of each of `processes` processes on a machine: `asked` if it is not 0, else
/// OMP_NUM_THREADS if it is set, else an equal share of the cores.
[[nodiscard]] int compute_threads(int asked, std::int64_t processes);

/// Binds the calling thread, and the threads that it starts from now on, to these cores.
///
/// errors: Fault::kResource when the system refuses
void bind_to_cores(const std::vector<int>& cores);

/// Lets the calling thread use all cores again: for threads that do not compute.
void unbind_from_cores();

/// The cores that the calling thread is bound to; empty when it may use all of usable_cores().
[[nodiscard]] std::vector<int> bound_cores();

}  // namespace tributary
