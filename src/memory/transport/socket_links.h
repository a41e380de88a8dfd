#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/handle.h"
#include "memory/transport/refusal_counts.h"
#include "memory/transport/served_peer.h"
#include "memory/transport/socket/handshake.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

struct SocketLimits {
  std::size_t half_open = 64;  // connections before the end of their handshake
  std::size_t per_rank = 4;    // connections for each rank of the job, all together
  TimePoint handshake = {5'000'000'000};
};

/// This process, as an end of links.
struct LinkEnd {
  Membership self;
  std::uint32_t epoch = 0;
  ObjectServer* server = nullptr;  // null: this process has no objects
  SocketLimits limits = {};
};

/// Links over stream sockets: connects and accepts, proves who is there, carries control messages,
/// and reads and serves objects. What the engines over sockets have in common.
///
/// Any error closes the connection, which is never used again. Refusals are counted by a code:
/// `user`, `half_open`, `connections`, `descriptors`, `handshake`, `duplicate`, `incarnation`,
/// `peer`, `role`, `reply`, `crc`, and those of ClientHandshake, ServedPeer and FrameParser.
class SocketLinks {
 public:
  SocketLinks(LinkEnd end, const JobKey& key);
  ~SocketLinks();
  SocketLinks(const SocketLinks&) = delete;
  SocketLinks& operator=(const SocketLinks&) = delete;

  /// Accepts peers from a listening socket, which does not block.
  void listen(Descriptor listening);
  /// Takes a socket on its way to the owner of `row`; `where` names the address. `resumes`: an
  /// earlier link to it broke.
  PeerLink connect(Descriptor socket, const SegmentRow& row, std::string where, TimePoint deadline,
                   bool resumes = false);
  /// The epoch of this process, as it travels in every frame.
  void set_epoch(std::uint32_t epoch) { end_.epoch = epoch; }

  // As in Transport.
  Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle, std::span<std::byte> into,
                              TimePoint deadline);
  Status post_control(PeerLink link, FrameType type, std::span<const std::byte> body);
  /// The frames that wait for the peer to take them; 0 where there is no link. units: bytes
  [[nodiscard]] std::size_t unsent_bytes(PeerLink link);
  std::size_t poll(std::span<Completion> out, TimePoint now);
  [[nodiscard]] int wake_fd() const { return epoll_.get(); }
  void close(PeerLink link, CloseMode mode);
  /// Takes the link for broken by the network.
  void give_up(PeerLink link, const std::string& reason);

  /// Sends a message with a descriptor beside it, over a unix socket.
  Status send_descriptor(PeerLink link, FrameType type, std::span<const std::byte> body,
                         int descriptor);
  /// The descriptors that came over a link, in their order, one a call; owns nothing when none is
  /// left.
  [[nodiscard]] Descriptor take_descriptor(PeerLink link);
  /// Counts a refusal that the user of a link decided on, and closes the link.
  void refuse(PeerLink link, const Refusal& refusal);
  [[nodiscard]] const RefusalCounts& refusals() const { return refusals_; }

 private:
  struct Connection;

  Connection* find(PeerLink link);
  Connection& add(Descriptor socket, std::string where);
  void accept_all(int listening);  // socket_admission.cpp
  void drop_one(int listening);
  [[nodiscard]] std::optional<Refusal> check_stranger(int socket) const;

  void serve(Connection& at, std::uint32_t ready);
  void read(Connection& at);
  void flush(Connection& at);
  void watch(Connection& at);
  // socket_admission.cpp
  void greet(Connection& at);
  [[nodiscard]] std::optional<Refusal> take_handshake(Connection& at, const Frame& frame);
  [[nodiscard]] std::optional<Refusal> take_hello(Connection& at, const Hello& hello);
  [[nodiscard]] std::optional<Refusal> take_challenge(Connection& at, const Challenge& challenge);
  [[nodiscard]] std::optional<Refusal> take_confirm(Connection& at, const Confirm& confirm);
  [[nodiscard]] std::optional<Refusal> check_newcomer(const Hello& hello) const;
  void open(Connection& at, const Hello& peer);

  void take_frame(Connection& at, Frame frame);
  void take_message(Connection& at, Frame frame);
  Status queue(Connection& at, OutgoingFrame frame);

  void refuse(Connection& at, const Refusal& refusal);
  void close_when_sent(Connection& at);
  /// The network broke the connection, or damaged what came over it.
  void lose(Connection& at, Status status, const std::string& reason);
  void end(Connection& at, Status status, const std::string& reason, bool is_broken = false);
  void scan_deadlines();
  void report_transfers();

  LinkEnd end_;
  JobKey key_;
  Descriptor epoll_;
  Descriptor spare_;   // closed to take, and drop, a connection when no descriptor is left
  Descriptor signal_;  // readable while events_ holds what poll() had no room for
  std::vector<Descriptor> listening_;
  std::map<PeerLink, std::unique_ptr<Connection>> connections_;
  bool has_ended_ = false;  // a connection that poll() still has to remove
  std::map<std::uint32_t, std::uint32_t> incarnations_;  // newest one seen of each rank
  std::uint64_t last_number_ = 0;                        // of a link or a transfer
  std::vector<TransferDone> done_;
  std::deque<Completion> events_;
  RefusalCounts refusals_;
  TimePoint now_ = {}, next_scan_ = {};
};

}  // namespace tributary::memory
