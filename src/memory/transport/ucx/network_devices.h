#pragma once

#include <string>

namespace tributary::memory {

/// The network devices that may carry what is said at `host`, an address of this machine, as UCX
/// names them, with commas between: the interface that has it and, unless that is the loopback
/// interface, every RDMA port. Empty when no interface has it.
[[nodiscard]] std::string network_devices_of(const std::string& host);

}  // namespace tributary::memory
