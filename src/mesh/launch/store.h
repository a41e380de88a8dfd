#pragma once

#include <c10/util/intrusive_ptr.h>

#include "mesh/launch/launch.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

/// How long ranks wait for each other at the start, in seconds.
struct StartPatience {
  double timeout_seconds = 120;   // for ranks to come: a slow machine may need it
  double lost_after_seconds = 5;  // max silence of the server; a warning then names late ranks
};

/// Connects to the store of the job; keys carry `trib/attempt_<attempt>`, so that an attempt never
/// reads what an earlier one left. In a world of one it is a store inside the process.
///
/// owns:       rank 0 serves the store unless the launcher does: its store must outlive the others'
/// collective: every rank; returns when all have arrived
/// errors:     Fault::kResource when the port is taken, when two processes have one rank, when the
///             store is not reached, its server does not answer or ranks did not arrive in
///             `timeout_seconds` (those are named); with ExitCode::kPeerLost when the server has
///             answered and then is silent for `lost_after_seconds`
[[nodiscard]] c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch,
                                                            const StartPatience& patience);

/// Reads what another rank writes into the store as soon as it has arrived. The store may outlive
/// its owner here, where it does not answer.
///
/// errors: Fault::kResource with ExitCode::kPeerLost, naming `writer`, when it is not there or the
///         store does not answer within `seconds`
[[nodiscard]] std::string await_key(c10d::Store& store, const std::string& key, int writer,
                                    double seconds);

/// The name of this machine, for messages.
[[nodiscard]] std::string host_name();

}  // namespace tributary::mesh
