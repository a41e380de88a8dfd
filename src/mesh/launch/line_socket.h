#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/handle.h"

namespace tributary::mesh {

/// A TCP connection that carries lines of text both ways and never blocks.
class LineSocket {
 public:
  explicit LineSocket(Descriptor socket);

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// Queues a line and sends what the socket takes. A peer that reads nothing loses lines beyond
  /// 64 KiB: an old heartbeat is worth nothing once the next one is there.
  void send(std::string_view line);
  /// Sends the queue and reads, as far as both go at once; returns the whole lines that came. A
  /// line above 8 KiB closes the connection. A peer that sends without end must not keep this
  /// thread: after `max_bytes` the rest waits for the next call.
  [[nodiscard]] std::vector<std::string> exchange(std::size_t max_bytes = 64 << 10);
  /// Ends sending: the peer reads what was queued and then the end.
  void finish_sending();

  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  [[nodiscard]] bool is_closed() const { return !closed_because_.empty(); }
  /// `connection closed`, `Connection reset by peer`; empty while it is open.
  [[nodiscard]] const std::string& closed_because() const { return closed_because_; }

 private:
  void flush();
  void close_because(std::string reason);

  Descriptor socket_;
  std::string unsent_;
  std::string unread_;
  std::string closed_because_;
};

/// A socket that waits for connections.
struct Listener {
  Descriptor socket;
  int port = 0;
};

/// Listens on a port that the system chooses; only on the loopback interface when all ranks are on
/// this machine.
///
/// errors: Fault::kResource
[[nodiscard]] Listener listen_for_ranks(bool this_machine_alone);

/// Takes the next waiting connection; owns nothing when none waits.
[[nodiscard]] Descriptor accept_next(const Listener& listener);

/// errors: Fault::kResource with the address when nobody answers in time
[[nodiscard]] Descriptor connect_to(const std::string& host, int port, double timeout_seconds);

}  // namespace tributary::mesh
