#pragma once

#include <optional>
#include <string>

#include "core/handle.h"
#include "core/result.h"
#include "core/units.h"

namespace tributary::memory {

/// A numeric address with a port: `10.0.0.7:51122`, `[fd00::7]:51122`. No names: looking one up
/// blocks, and says nothing that the job key does not prove.
struct Endpoint {
  std::string host;
  int port = 0;  // 0: the system chooses, when listening

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
[[nodiscard]] std::string text_of(const Endpoint& endpoint);
/// errors: Refusal (`endpoint`)
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& text);

/// The address of this machine from which an endpoint is reached; that of the loopback interface
/// when there is no way to it.
[[nodiscard]] std::string local_host_towards(const std::string& endpoint);

/// The address of an interface of this machine, IPv4 where it has both; the text itself where no
/// interface has this name.
[[nodiscard]] std::string host_of_interface(const std::string& name);

struct TcpListener {
  Descriptor socket;
  Endpoint endpoint;
};

/// Listens at one address of this machine; never blocks.
///
/// errors: Fault::kInput when the address is all of them, not of this machine, or one of the public
///         network without `allow_public`; Fault::kResource when the port is taken
[[nodiscard]] TcpListener listen_on(const Endpoint& endpoint, bool allow_public);

/// Starts to connect; the socket becomes writable when that has ended.
///
/// errors: Refusal (`connect`; `nobody`: nobody listens there, which may also be known later)
[[nodiscard]] Result<Descriptor> start_connecting(const Endpoint& endpoint);

/// What has gone wrong with a socket since this was asked last, as errno has it; 0: nothing.
[[nodiscard]] int failure_of(int socket);

/// Why a connection could not be made, as errno has it; 0 once it is made. Null while it is being
/// made.
[[nodiscard]] std::optional<int> connection_failure(const Descriptor& connecting);

/// Whether a process listens at an endpoint. Waits for its answer for at most `patience`.
[[nodiscard]] bool has_listener(const std::string& endpoint, Nanoseconds patience);

/// Sets what a link needs: small messages leave at once, large buffers, and an end within 10 s when
/// nothing of what was sent is acknowledged.
void set_link_options(int socket);

}  // namespace tributary::memory
