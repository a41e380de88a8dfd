#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/transport/posted_gets.h"
#include "memory/transport/served_peer.h"
#include "memory/transport/socket/frame_socket.h"
#include "memory/transport/socket/handshake.h"
#include "memory/transport/socket_links.h"

namespace tributary::memory {

inline constexpr std::size_t kMaxUnsent = 4096;  // frames queued for one peer

/// How far a connection is.
enum class Stage {
  kConnecting,  // the system connects
  kHandshake,
  kOpen,
  kClosing,  // only sends what is queued
  kEnded,
};

/// One connection of SocketLinks.
struct SocketLinks::Connection {
  FrameSocket socket;
  PeerLink link{};
  std::string where;
  Stage stage = Stage::kHandshake;
  TimePoint deadline = {};  // of the handshake, or of what is sent before the close
  std::optional<ClientHandshake> client = {};
  std::optional<ServerHandshake> server = {};  // of an incoming connection, after its HELLO
  std::uint16_t expected_process = 0;
  std::uint32_t expected_incarnation = 0;
  PeerIdentity peer = {};
  PostedGets gets;
  ServedPeer served;
  std::vector<OutgoingFrame> held = {};  // until the link is open
  bool drains = false;                   // closes when all gets have ended
  bool cannot_send = false;              // the peer has closed; what it sent before is still read
  std::optional<Refusal> refused = {};   // why it closes
  std::uint32_t watched = 0;             // events that epoll reports

  [[nodiscard]] bool is_full() const { return held.size() + socket.unsent_frames() >= kMaxUnsent; }
};

}  // namespace tributary::memory
