#include "memory/transport/socket/tcp_socket.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "core/error.h"

namespace tributary::memory {
namespace {

constexpr int kBufferBytes = 4 << 20;           // the system may give less
constexpr unsigned kUnacknowledgedMs = 10'000;  // until a connection counts as broken

struct SystemAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* generic() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

std::optional<SystemAddress> resolve(const Endpoint& endpoint) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* all = nullptr;
  if (getaddrinfo(endpoint.host.c_str(), str(endpoint.port).c_str(), &hints, &all) != 0)
    return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(all, &freeaddrinfo);
  SystemAddress address;
  std::memcpy(&address.storage, all->ai_addr, all->ai_addrlen);
  address.size = all->ai_addrlen;
  return address;
}

enum class Network { kAll, kPrivate, kPublic };

Network network_of_v4(std::uint32_t address) {
  const auto lies_in = [&](std::uint32_t prefix, int bits) {
    return (address ^ prefix) >> (32 - bits) == 0;
  };
  if (address == INADDR_ANY) return Network::kAll;
  const bool is_private = lies_in(0x7f000000, 8) ||   // loopback
                          lies_in(0x0a000000, 8) ||   // RFC 1918
                          lies_in(0xac100000, 12) ||  // RFC 1918
                          lies_in(0xc0a80000, 16) ||  // RFC 1918
                          lies_in(0xa9fe0000, 16) ||  // link-local
                          lies_in(0x64400000, 10);    // RFC 6598, shared by carriers
  return is_private ? Network::kPrivate : Network::kPublic;
}

Network network_of(const SystemAddress& address) {
  if (address.storage.ss_family == AF_INET)
    return network_of_v4(
        ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr));
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr;
  if (IN6_IS_ADDR_UNSPECIFIED(&v6)) return Network::kAll;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    std::uint32_t v4 = 0;
    std::memcpy(&v4, &v6.s6_addr[12], sizeof v4);
    return network_of_v4(ntohl(v4));
  }
  const bool is_unique_local = (v6.s6_addr[0] & 0xfe) == 0xfc;
  return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6) || is_unique_local
             ? Network::kPrivate
             : Network::kPublic;
}

/// The address as text; empty where it is none.
std::string numeric_host(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int failure =
      getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failure == 0 ? text.data() : "";
}

Descriptor make_socket(const SystemAddress& address) {
  Descriptor made(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made) set_link_options(made.get());
  return made;
}

}  // namespace

void set_link_options(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof kUnacknowledgedMs);
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
}

std::string text_of(const Endpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return str(is_v6 ? "[" : "", endpoint.host, is_v6 ? "]:" : ":", endpoint.port);
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  const Refusal wrong{"endpoint", str("memory: endpoint is no address with a port: ", escaped(text),
                                      ", expected 10.0.0.7:51122 or [fd00::7]:51122")};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong;
  Endpoint endpoint{.host = text.substr(0, colon), .port = -1};
  if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']')
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  const bool is_port = parsed.ptr == end && endpoint.port >= 0 && endpoint.port <= 65535;
  if (!is_port || text_of(endpoint) != text || !resolve(endpoint)) return wrong;
  return endpoint;
}

std::string local_host_towards(const std::string& endpoint) {
  const Result<Endpoint> parsed = parse_endpoint(endpoint);
  std::optional<SystemAddress> address = parsed ? resolve(parsed.value()) : std::nullopt;
  std::string host = "127.0.0.1";
  if (!address) return host;
  // A datagram socket connects without sending anything.
  const Descriptor probe(socket(address->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  auto* generic = reinterpret_cast<sockaddr*>(&address->storage);
  if (probe && ::connect(probe.get(), generic, address->size) == 0 &&
      getsockname(probe.get(), generic, &address->size) == 0)
    if (std::string own = numeric_host(generic, address->size); !own.empty()) host = own;
  return host;
}

std::string host_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return name;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (name != each->ifa_name || each->ifa_addr == nullptr ||
          each->ifa_addr->sa_family != family)
        continue;
      // A link-local address has the name of an interface of this machine in it.
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (const std::string host = numeric_host(each->ifa_addr, size); !host.empty()) return host;
    }
  return name;
}

TcpListener listen_on(const Endpoint& endpoint, bool allow_public) {
  std::optional<SystemAddress> address = resolve(endpoint);
  TRIB_REQUIRE(address, .what = "memory: pool cannot listen at what is no address",
               .where = "pool.bind", .found = escaped(endpoint.host),
               .expected = "an address of this machine, or the name of an interface");
  const Network network = network_of(*address);
  TRIB_REQUIRE(network != Network::kAll, .what = "memory: pool would listen on all interfaces",
               .where = "pool.bind", .found = endpoint.host,
               .expected = "the address or the name of one interface");
  TRIB_REQUIRE(network == Network::kPrivate || allow_public,
               .what = "memory: pool would listen on a public address", .where = "pool.bind",
               .found = endpoint.host, .expected = "an address of a private network",
               .fix = "name an interface of a private network");
  TcpListener listener{.socket = make_socket(*address), .endpoint = endpoint};
  const int on = 1;
  auto* generic = reinterpret_cast<sockaddr*>(&address->storage);
  const bool listens =
      listener.socket &&
      setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(listener.socket.get(), generic, address->size) == 0 &&
      listen(listener.socket.get(), SOMAXCONN) == 0 &&
      getsockname(listener.socket.get(), generic, &address->size) == 0;
  const int failure = errno;
  const bool is_elsewhere = !listens && failure == EADDRNOTAVAIL;
  TRIB_REQUIRE(!is_elsewhere, .what = "memory: pool cannot listen at an address of another machine",
               .where = "pool.bind", .found = endpoint.host,
               .expected = "an address of this machine, or the name of an interface");
  if (!listens)
    TRIB_RAISE(Fault::kResource, .what = "memory: pool cannot listen", .where = text_of(endpoint),
               .found = std::strerror(failure));
  // The port stands at the same place in both kinds of address.
  listener.endpoint.port = ntohs(reinterpret_cast<const sockaddr_in*>(&address->storage)->sin_port);
  return listener;
}

Result<Descriptor> start_connecting(const Endpoint& endpoint) {
  const std::optional<SystemAddress> address = resolve(endpoint);
  Descriptor connecting = address ? make_socket(*address) : Descriptor();
  if (connecting &&
      (::connect(connecting.get(), address->generic(), address->size) == 0 || errno == EINPROGRESS))
    return connecting;
  const int failure = errno;
  return Refusal{
      failure == ECONNREFUSED ? "nobody" : "connect",
      str("memory: peer cannot be reached: ", text_of(endpoint), ": ", std::strerror(failure))};
}

int failure_of(int socket) {
  int failure = 0;
  socklen_t size = sizeof failure;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &failure, &size);
  return failure;
}

std::optional<int> connection_failure(const Descriptor& connecting) {
  pollfd ready = {.fd = connecting.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) == 0) return std::nullopt;
  return failure_of(connecting.get());
}

bool has_listener(const std::string& endpoint, Nanoseconds patience) {
  const Result<Endpoint> parsed = parse_endpoint(endpoint);
  if (!parsed) return false;
  const Result<Descriptor> socket = start_connecting(parsed.value());
  if (!socket) return false;
  pollfd ready = {.fd = socket.value().get(), .events = POLLOUT, .revents = 0};
  ::poll(&ready, 1, static_cast<int>(patience.count / 1'000'000));
  return connection_failure(socket.value()) == 0;
}

}  // namespace tributary::memory
