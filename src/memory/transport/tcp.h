#pragma once

#include <memory>

#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/socket_links.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

/// Reads objects over TCP: across hosts, and wherever nothing faster works.
///
/// The owner sends from its arena under a lease. The reader reads straight into the destination and
/// checks the CRC32C slice by slice while the next one arrives, so that a GET has ended only when
/// the reader has the bytes. The key of a row is the endpoint as text.
class Tcp final : public Transport {
 public:
  Tcp(LinkEnd end, const JobKey& key) : links_(std::move(end), key) {}

  /// Serves peers that connect to `listener`.
  void listen(TcpListener listener);

  [[nodiscard]] const TransportTraits& traits() const override;
  Result<PeerLink> connect(const SegmentRow& row, TimePoint deadline) override;
  Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle, std::span<std::byte> into,
                              TimePoint deadline) override {
    return links_.post_get(link, handle, into, deadline);
  }
  [[nodiscard]] Status post_control(PeerLink link, FrameType type,
                                    std::span<const std::byte> body) override {
    return links_.post_control(link, type, body);
  }
  std::size_t poll(std::span<Completion> out, TimePoint now) override {
    return links_.poll(out, now);
  }
  [[nodiscard]] int wake_fd() const override { return links_.wake_fd(); }
  void close(PeerLink link, CloseMode mode) override { links_.close(link, mode); }

  [[nodiscard]] SocketLinks& links() { return links_; }

 private:
  SocketLinks links_;
};

/// Opens a link to the endpoint in the key of `engine`, for engines whose links are TCP
/// connections.
///
/// errors: Refusal (`key`, `endpoint`, `connect`)
[[nodiscard]] Result<PeerLink> connect_over_tcp(SocketLinks& links, const SegmentRow& row,
                                                Engine engine, TimePoint deadline);
/// The key of a row whose segment is served at `endpoint` by one of these engines.
[[nodiscard]] TransportKey endpoint_key(Engine engine, const Endpoint& endpoint);
/// The text of the endpoint in a row; empty when it has no such key.
[[nodiscard]] std::string endpoint_in(const SegmentRow& row, Engine engine);

}  // namespace tributary::memory
