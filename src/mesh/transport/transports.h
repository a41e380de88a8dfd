#pragma once

#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "mesh/transport/group.h"

namespace c10d {
class Store;
}

namespace tributary::mesh {

struct TransportOptions {
  std::string name;  // unique in the store
  int index = 0;
  int size = 1;
  double timeout_seconds = 60;
  std::string interface;       // network interface, empty: that of the address of the host's name
  bool shares_memory = false;  // the ranks are on one machine
  bool only_messages = false;  // pairs send and receive, and nothing else is done
};

/// Makes a transport between processes on CPU: through shared memory, or else through sockets.
///
/// All ranks of the group construct it at the same time.
[[nodiscard]] std::unique_ptr<Transport> make_direct(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const TransportOptions& options);
/// Makes a transport of CUDA tensors that travel as messages of the host: several ranks may share a
/// device, where NCCL wants one for each.
[[nodiscard]] std::unique_ptr<Transport> make_through_host(
    const c10::intrusive_ptr<c10d::Store>& store, const TransportOptions& options);
/// Makes a transport that refuses whatever it is asked, for a job that does not run.
[[nodiscard]] std::unique_ptr<Transport> make_unconnected();
/// Makes a transport between CUDA devices; the build without CUDA refuses.
///
/// errors: Fault::kInput when two ranks share a device
[[nodiscard]] std::unique_ptr<Transport> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                   const TransportOptions& options, int device);

}  // namespace tributary::mesh
