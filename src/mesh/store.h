#pragma once

#include <c10/util/intrusive_ptr.h>

#include "mesh/launch.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

/// Connects to the store of the job; keys carry `trib/attempt_<attempt>`, so that an attempt never
/// reads what an earlier one left. In a world of one it is a store inside the process.
///
/// owns:       rank 0 serves the store unless the launcher does: its store must outlive the others'
/// collective: every rank; returns when all have arrived
/// errors:     Fault::kResource when the port is taken, when two processes have one rank, when the
///             store is not reached or ranks did not arrive in `timeout_seconds` (those are named),
///             and after twice that when who listens never answers
[[nodiscard]] c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch,
                                                            double timeout_seconds);

/// The name of this machine, for messages.
[[nodiscard]] std::string host_name();

}  // namespace tributary::mesh
