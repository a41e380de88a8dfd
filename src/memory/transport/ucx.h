#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/transport/copy_threads.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/socket_links.h"
#include "memory/transport/transport.h"
#include "memory/transport/ucx/message_worker.h"

namespace tributary::memory {

/// Reads over whatever network UCX knows: RDMA, shared memory, TCP.
///
/// UCX proves nobody. So a link is a TCP connection with its handshake, which lives as long as the
/// link; over it the two tell each other where their workers are, and a token of 32 random bytes.
/// GETs and replies then travel as UCX messages which carry the receiver's token; others are
/// refused and counted (`stranger`). The owner makes every check of a GET, and grants the memory
/// until UCX has sent it. The key of a row is the endpoint of the TCP connection.
///
/// Checksums are computed on a thread of its own, while the next object comes in.
class Ucx final : public Transport, private MessageSink {
 public:
  Ucx(LinkEnd end, const JobKey& key, std::unique_ptr<MessageWorker> worker);
  ~Ucx() override;

  /// Serves peers that connect to `listener`.
  void listen(TcpListener listener) { links_.listen(std::move(listener.socket)); }

  [[nodiscard]] const TransportTraits& traits() const override;
  Result<PeerLink> connect(const SegmentRow& row, TimePoint deadline) override;
  Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle, std::span<std::byte> into,
                              TimePoint deadline) override;
  [[nodiscard]] Status post_control(PeerLink link, FrameType type,
                                    std::span<const std::byte> body) override {
    return links_.post_control(link, type, body);
  }
  std::size_t poll(std::span<Completion> out, TimePoint now) override;
  [[nodiscard]] int wake_fd() const override { return epoll_.get(); }
  void close(PeerLink link, CloseMode mode) override;

  void set_epoch(std::uint32_t epoch) {
    end_.epoch = epoch;
    links_.set_epoch(epoch);
  }
  [[nodiscard]] SocketLinks& links() { return links_; }
  /// Messages of workers that no link has named, which anybody may send who reaches the network.
  [[nodiscard]] std::uint64_t strangers() const { return strangers_.of("stranger"); }

 private:
  /// Stands before every message; `link` and `token` are the receiver's.
  struct Head;
  struct Asked {
    PeerLink link{};
    std::uint32_t epoch = 0;  // of the reader
    GetRequest request;
  };
  struct Peer {
    PeerIdentity identity = {};  // of a peer that connected by itself
    Mac own_token{};             // what its messages must carry
    Mac token{};                 // what messages to it must carry
    std::uint64_t number = 0;    // its number of the link
    std::optional<MessagePath> path = {};
    std::vector<Asked> early = {};  // before its worker was known
    bool drains = false;
    std::optional<Refusal> refused = {};    // closes it when the reply was sent
    std::optional<LinkClosed> closed = {};  // reported when nothing is received any more
  };
  enum class Stage {
    kWaiting,    // for the path to the owner
    kAsked,      // the request was sent
    kReceiving,  // UCX writes into the buffer
    kChecking,   // the checksum is computed
  };
  struct Pull {
    PeerLink link{};
    GetRequest request;
    std::span<std::byte> into;
    std::optional<std::uint32_t> crc32c;
    TimePoint deadline = {};
    Stage stage = Stage::kWaiting;
    std::optional<Status> failed = {};  // what it ends with, once nothing uses the buffer
  };
  using Pulls = std::map<TransferId, Pull>;
  struct Reply {
    PeerLink link{};
    std::uint64_t grant = 0;
  };

  // MessageSink
  MessagePlace arrived(MessageKind kind, std::span<const std::byte> head,
                       std::uint64_t bytes) override;
  void placed(std::uint64_t cookie, bool whole) override;
  void sent(std::uint64_t cookie, bool whole) override;
  void failed(MessagePath path, const std::string& why) override;

  void take_event(Completion event);
  void introduce(PeerLink link, Peer& peer);
  void take_worker(const FrameReceived& received);
  void ask(TransferId id, Pull& pull);
  void answer(const Asked& asked);
  [[nodiscard]] MessagePlace take_reply(PeerLink link, const GetReply& reply, std::uint64_t bytes);
  void check(TransferId id, Pull& pull);
  void end_pull(Pulls::iterator pull, Status status);
  void lose(PeerLink link, Peer& peer, LinkClosed closed);
  void expire();
  void close_idle();
  void close_path(Peer& peer);
  void set_signal(bool is_readable);

  LinkEnd end_;
  SocketLinks links_;
  std::unique_ptr<MessageWorker> worker_;
  std::map<PeerLink, Peer> peers_;
  Pulls pulls_;
  std::vector<Asked> asked_;                // since the last poll()
  std::map<std::uint64_t, Reply> replies_;  // under way
  std::uint64_t last_transfer_ = 0, last_reply_ = 0;
  RefusalCounts strangers_;
  std::deque<Completion> events_;
  bool is_signalled_ = false;
  TimePoint now_ = {}, next_scan_ = {};
  Descriptor epoll_;
  Descriptor signal_;   // readable while poll() has work that no other descriptor tells
  CopyThreads checks_;  // last: its thread ends before what it uses
};

/// Opens the engine; `host` is the address of this machine whose network it may use, beside RDMA.
///
/// errors: Refusal (`ucx`) where the library is not built, no interface has the address, or nothing
///         is found to talk over
[[nodiscard]] Result<std::unique_ptr<Ucx>> open_ucx(const LinkEnd& end, const JobKey& key,
                                                    const std::string& host);
/// As open_ucx(), for a user who asked for the engine.
///
/// errors: Fault::kInput where open_ucx() is refused
[[nodiscard]] std::unique_ptr<Ucx> require_ucx(const LinkEnd& end, const JobKey& key,
                                               const std::string& host);

}  // namespace tributary::memory
