#pragma once

namespace tributary::mesh {

/// CPU time that this thread has spent in starting collectives and waiting for them, in seconds:
/// the part of thread_cpu_seconds() that is not its own work.
[[nodiscard]] double cpu_seconds_in_collectives();

}  // namespace tributary::mesh
