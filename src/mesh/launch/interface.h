#pragma once

#include <string>

namespace tributary::mesh {

/// The network interface through which this machine reaches `host`; on `host` itself, the one that
/// has its address. Collectives meet the other machines on it, whatever the name of this machine
/// resolves to (Debian gives it 127.0.1.1).
///
/// errors: Fault::kResource when the name does not resolve or there is no route
[[nodiscard]] std::string interface_towards(const std::string& host);

/// That interface, or the one that GLOO_SOCKET_IFNAME names.
[[nodiscard]] std::string collective_interface(const std::string& master_address);

}  // namespace tributary::mesh
