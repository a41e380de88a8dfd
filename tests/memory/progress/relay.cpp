#include "tests/memory/progress/relay.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "memory/transport/socket/tcp_socket.h"

namespace tributary::memory {
namespace {

/// The two sockets of a connection, and what waits to leave by each.
struct Connection {
  std::array<Descriptor, 2> ends;
  std::array<std::vector<std::byte>, 2> unsent = {};
};

/// Its sockets, once they are closed, reset both ends.
void reset_connection(const Connection& connection) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  for (const Descriptor& end : connection.ends)
    setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/// Passes on what came by one end, and how it ended; false when the connection is over.
bool pass(Connection& connection, std::size_t from, std::atomic<bool>& flips) {
  std::array<std::byte, 65536> block;
  std::vector<std::byte>& unsent = connection.unsent[1 - from];
  const ssize_t came = recv(connection.ends[from].get(), block.data(), block.size(), 0);
  if (came == 0) return false;
  if (came < 0 && errno != EAGAIN) {
    reset_connection(connection);
    return false;
  }
  for (ssize_t i = 0; i < came; ++i) unsent.push_back(block[static_cast<std::size_t>(i)]);
  if (unsent.empty()) return true;
  if (flips.exchange(false)) unsent.back() ^= std::byte{1};
  const ssize_t sent =
      send(connection.ends[1 - from].get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) {
    reset_connection(connection);
    return false;
  }
  if (sent < 0) return true;
  unsent.erase(unsent.begin(), unsent.begin() + sent);
  return true;
}

}  // namespace

Relay::Relay(const std::string& endpoint) : endpoint_(endpoint) {
  TcpListener listener = listen_on({.host = "127.0.0.1", .port = 0}, /*allow_public=*/false);
  own_endpoint_ = text_of(listener.endpoint);
  listening_ = std::move(listener.socket);
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Relay::~Relay() = default;

void Relay::stand_before(const std::string& directory) {
  PoolJob job = find_pool(directory).value().job;
  job.endpoint = own_endpoint_;
  job.unix_socket.clear();
  publish_controller(directory, job);
}

void Relay::work(const std::stop_token& stop) {
  std::vector<Connection> all;
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (resets_.exchange(false)) {
      for (const Connection& each : all) reset_connection(each);
      all.clear();
    }
    if (holds_) continue;
    Descriptor member(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (member) {
      ++connections_;
      Descriptor controller = start_connecting(parse_endpoint(endpoint_).value()).value();
      all.push_back({.ends = {std::move(member), std::move(controller)}});
    }
    std::erase_if(
        all, [this](Connection& each) { return !pass(each, 0, flips_) || !pass(each, 1, flips_); });
  }
}

}  // namespace tributary::memory
