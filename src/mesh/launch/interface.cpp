#include "mesh/launch/interface.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/error.h"
#include "mesh/launch/line_socket.h"

namespace tributary::mesh {
namespace {

bool is_same_address(const sockaddr* one, const sockaddr_storage& other) {
  if (one == nullptr || one->sa_family != other.ss_family) return false;
  if (one->sa_family == AF_INET)
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(one)->sin_addr,
                       &reinterpret_cast<const sockaddr_in&>(other).sin_addr, sizeof(in_addr)) == 0;
  return one->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

/// The interface that has this address; empty when none has.
std::string interface_of(const sockaddr_storage& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next)
    if (is_same_address(each->ifa_addr, address)) return each->ifa_name;
  return "";
}

/// Finds the address from which this machine would send to `target`. A datagram socket that is
/// connected asks the routes and sends nothing.
bool find_source(const addrinfo& target, sockaddr_storage& source) {
  const Descriptor socket(::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t size = sizeof source;
  return socket && connect(socket.get(), target.ai_addr, target.ai_addrlen) == 0 &&
         getsockname(socket.get(), reinterpret_cast<sockaddr*>(&source), &size) == 0;
}

}  // namespace

std::string interface_towards(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* all = nullptr;
  constexpr const char* kAnyPort = "9";  // of the discard service; nothing is sent
  const int failure = getaddrinfo(host.c_str(), kAnyPort, &hints, &all);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(all, &freeaddrinfo);
  std::string found = failure != 0 ? gai_strerror(failure) : "";
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    sockaddr_storage source = {};
    const std::string name = find_source(*each, source) ? interface_of(source) : "";
    if (!name.empty()) return name;
    found = std::strerror(errno);
  }
  TRIB_RAISE(Fault::kResource, .what = "mesh: no network interface towards rank 0", .where = host,
             .found = found, .expected = "an address that this machine has a route to",
             .fix = "set MASTER_ADDR to an address of rank 0, or GLOO_SOCKET_IFNAME");
}

std::string collective_interface(const std::string& master_address) {
  const char* given = std::getenv("GLOO_SOCKET_IFNAME");
  return given != nullptr && *given != '\0' ? given : interface_towards(master_address);
}

}  // namespace tributary::mesh
