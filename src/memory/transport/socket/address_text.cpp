#include "memory/transport/socket/address_text.h"

#include <array>
#include <netdb.h>
#include <sys/socket.h>

#include "core/text.h"

namespace tributary::memory {

std::string address_text(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(socket, generic, &size) != 0) return "unknown";
  ucred other = {};
  socklen_t other_size = sizeof other;
  if (address.ss_family == AF_UNIX)
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &other_size) == 0
               ? str("user ", other.uid, ", process ", other.pid)
               : "unknown";
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  const bool is_v6 = address.ss_family == AF_INET6;
  return str(is_v6 ? "[" : "", host.data(), is_v6 ? "]:" : ":", port.data());
}

}  // namespace tributary::memory
