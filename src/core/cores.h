#pragma once

#include <cstdint>
#include <vector>

namespace tributary {

/// Numbers of the cores that this process was given when it started, ascending; to bind it to some
/// of them changes nothing here, as it does to `std::thread::hardware_concurrency`.
[[nodiscard]] const std::vector<int>& usable_cores();

/// One of equal parts of the cores, in a row. Where parts are more than cores one core each, dealt
/// in turn: processes beside each other work at one time.
[[nodiscard]] std::vector<int> part_of_cores(const std::vector<int>& usable, int part, int parts);

/// Compute threads of each of so many processes of a machine: as asked for, if not 0, as
/// OMP_NUM_THREADS says, or a part of the cores.
[[nodiscard]] int compute_threads(int asked, std::int64_t processes);

/// Keeps the calling thread, and all that it starts from now on, on these cores.
///
/// errors: Fault::kResource when the system refuses
void bind_to_cores(const std::vector<int>& cores);

/// Lets the calling thread use all cores again: one that works beside those that compute.
void unbind_from_cores();

/// Those that the calling thread is bound to; none where it may use all of usable_cores().
[[nodiscard]] std::vector<int> bound_cores();

}  // namespace tributary
