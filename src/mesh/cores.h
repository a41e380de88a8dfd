#pragma once

#include <vector>

namespace tributary::mesh {

/// Numbers of the cores that this process was given when it started, ascending; to bind it to some
/// of them changes nothing here, as it does to `std::thread::hardware_concurrency`.
[[nodiscard]] const std::vector<int>& usable_cores();

/// The cores of one rank of a machine: an equal part in a row. Where ranks are more than cores one
/// core each, dealt in turn: ranks beside each other work at one time.
[[nodiscard]] std::vector<int> cores_of_rank(const std::vector<int>& usable, int local_rank,
                                             int local_world);

/// Keeps the calling thread, and all that it starts from now on, on these cores.
///
/// errors: Fault::kResource when the system refuses
void bind_to_cores(const std::vector<int>& cores);

/// Lets the calling thread use all cores again: one that works beside those that compute.
void unbind_from_cores();

/// Those that this process is bound to; none where it may use all of usable_cores().
[[nodiscard]] std::vector<int> bound_cores();

}  // namespace tributary::mesh
