#pragma once

#include <string>

namespace tributary::mesh {

/// The network interface through which this machine reaches `host`; of the machine that is `host`,
/// the one that has its address. On it collectives meet the other machines, whatever the name of
/// this one resolves to (Debian gives it 127.0.1.1).
///
/// errors: Fault::kResource when the name does not resolve or there is no route
[[nodiscard]] std::string interface_towards(const std::string& host);

/// That interface, or the one that GLOO_SOCKET_IFNAME names.
[[nodiscard]] std::string collective_interface(const std::string& master_address);

}  // namespace tributary::mesh
