#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tributary::mesh {

/// Which process of the job this one is, and where the store of the job is.
struct Launch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;               // among the processes of this machine
  int local_world = 1;              // processes of this machine
  int node = 0;                     // which machine
  std::string master_address = {};  // of the store, and of rank 0; empty in a world of one
  int master_port = 0;
  bool store_is_served = false;   // the launcher serves the store; otherwise rank 0 does
  int listen_descriptor = -1;     // rank 0 only: the socket that already listens on master_port
  std::string attempt = "0";      // grows with every restart; part of every key in the store
  std::string launcher = "none";  // tributary, torchrun, environment, open mpi, slurm, none
};

/// The value of an environment variable; null when it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads what the launcher of this process says: `tributary launch` (TRIB_RANK ...), torchrun or a
/// Kubernetes PyTorchJob (RANK, WORLD_SIZE ...), Open MPI, Slurm, in this order. A process without
/// any of them is a world of one.
///
/// errors: Fault::kInput that names the variable: one without its partner, no number, a rank
///         outside the world, no address or port of the store where there is more than one process
/// source: docs/theory/reliability.md, "Variables of launchers"
[[nodiscard]] Launch read_launch(const Lookup& lookup);
/// The same with the environment of this process.
[[nodiscard]] Launch read_launch();

}  // namespace tributary::mesh
