#include "mesh/launch/line_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "core/error.h"
#include "core/stopwatch.h"

namespace tributary::mesh {
namespace {

constexpr std::size_t kMaxUnsent = 64 << 10;  // bytes
constexpr std::size_t kMaxLine = 8 << 10;     // bytes

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

[[noreturn]] void raise_socket(const std::string& call, const std::string& where) {
  TRIB_RAISE(Fault::kResource, .what = "mesh: socket call failed", .where = where,
             .found = str(call, ": ", std::strerror(errno)));
}

void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

LineSocket::LineSocket(Descriptor socket) : socket_(std::move(socket)) {
  send_at_once(socket_.get());
}

void LineSocket::close_because(std::string reason) {
  if (is_closed()) return;
  closed_because_ = std::move(reason);
  unsent_.clear();
  socket_.reset();
}

void LineSocket::send(std::string_view line) {
  if (is_closed() || unsent_.size() + line.size() > kMaxUnsent) return;
  unsent_ += line;
  unsent_ += '\n';
  flush();
}

void LineSocket::flush() {
  while (!unsent_.empty()) {
    const ssize_t count = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (count < 0 && would_block()) return;
    if (count < 0) return close_because(std::strerror(errno));
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
}

void LineSocket::finish_sending() {
  if (is_closed()) return;
  flush();
  if (!is_closed()) shutdown(socket_.get(), SHUT_WR);
}

std::vector<std::string> LineSocket::exchange(std::size_t max_bytes) {
  std::vector<std::string> lines;
  std::string reason;
  std::array<char, 4096> block;
  std::size_t taken = 0;
  while (!is_closed() && reason.empty() && taken < max_bytes) {
    const ssize_t count = recv(socket_.get(), block.data(), block.size(), 0);
    if (count < 0 && would_block()) break;
    if (count < 0) reason = std::strerror(errno);
    if (count == 0) reason = "connection closed";
    if (count > 0) unread_.append(block.data(), static_cast<std::size_t>(count));
    taken += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos;) {
      lines.push_back(unread_.substr(begin, end - begin));
      begin = end + 1;
    }
    unread_.erase(0, begin);
    if (unread_.size() > kMaxLine) reason = "line is longer than the limit of 8 KiB";
  }
  // Closed only now, so that lines sent before the end are still delivered.
  if (!reason.empty()) close_because(std::move(reason));
  if (!is_closed()) flush();
  return lines;
}

Listener listen_for_ranks(bool this_machine_alone) {
  // An IPv6 socket takes IPv4 connections too; where the machine has no IPv6, only IPv4.
  const bool v6 = !this_machine_alone && Descriptor(socket(AF_INET6, SOCK_STREAM, 0));
  const std::string where = this_machine_alone ? "loopback" : "all interfaces";
  Listener listener{.socket = Descriptor(socket(v6 ? AF_INET6 : AF_INET,
                                                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!listener.socket) raise_socket("socket", where);
  sockaddr_storage address = {};
  socklen_t size = 0;
  if (v6) {
    const int off = 0;
    setsockopt(listener.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto* any = reinterpret_cast<sockaddr_in6*>(&address);
    any->sin6_family = AF_INET6;
    any->sin6_addr = in6addr_any;
    size = sizeof *any;
  } else {
    auto* any = reinterpret_cast<sockaddr_in*>(&address);
    any->sin_family = AF_INET;
    any->sin_addr.s_addr = htonl(this_machine_alone ? INADDR_LOOPBACK : INADDR_ANY);
    size = sizeof *any;
  }
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.socket.get(), generic, size) != 0) raise_socket("bind", where);
  if (listen(listener.socket.get(), SOMAXCONN) != 0) raise_socket("listen", where);
  if (getsockname(listener.socket.get(), generic, &size) != 0) raise_socket("getsockname", where);
  // The port stands at the same place in both kinds of address.
  listener.port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return listener;
}

Descriptor accept_next(const Listener& listener) {
  return Descriptor(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

namespace {

/// Connects to one address; owns nothing, and errno says why, when that fails.
Descriptor try_address(const addrinfo& address, double timeout_seconds) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  pollfd ready{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  const int count = poll(&ready, 1, static_cast<int>(timeout_seconds * 1e3));
  int failure = count == 0 ? ETIMEDOUT : 0;
  socklen_t size = sizeof failure;
  if (count > 0) getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure == 0 && count > 0) return socket;
  errno = failure;
  return {};
}

}  // namespace

Descriptor connect_to(const std::string& host, int port, double timeout_seconds) {
  const Stopwatch waited;
  std::string found;
  do {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* all = nullptr;
    const int failure = getaddrinfo(host.c_str(), str(port).c_str(), &hints, &all);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(all, &freeaddrinfo);
    if (failure != 0) found = gai_strerror(failure);
    for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
      Descriptor socket = try_address(*each, std::max(0.0, timeout_seconds - waited.seconds()));
      if (socket) return socket;
      found = std::strerror(errno);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (waited.seconds() < timeout_seconds);
  TRIB_RAISE(Fault::kResource, .what = "mesh: rank 0 is not reached for the heartbeats",
             .where = str(host, ":", port), .found = found,
             .expected = str("a connection within ", timeout_seconds, " s"),
             .fix = "let the ranks of a job reach every port of each other");
}

}  // namespace tributary::mesh
