#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "memory/transport/socket/frame_socket.h"
#include "memory/transport/transport.h"
#include "memory/wire/messages.h"

namespace tributary::memory {

/// What the owner does for the reader at the other end of one connection. Every grant and lease
/// ends with the connection at the latest.
class ServedPeer {
 public:
  explicit ServedPeer(ObjectServer* server) : server_(server) {}

  /// Answers a GET, LEASE or UNLEASE. A refusal: the connection must be closed, after what is
  /// queued was sent. Its code is `role`, `bounds`, or that of the parser.
  [[nodiscard]] std::optional<Refusal> answer(const PeerIdentity& peer, const Frame& frame,
                                              std::uint32_t epoch, FrameSocket& to);
  /// Gives back the grants of replies that were sent.
  void end_grants(const std::vector<std::uint64_t>& grants);
  /// Gives back everything.
  void end_all(FrameSocket& to);

 private:
  [[nodiscard]] std::optional<Refusal> answer_get(const PeerIdentity& peer,
                                                  const GetRequest& request, std::uint32_t epoch,
                                                  FrameSocket& to);
  [[nodiscard]] std::optional<Refusal> answer_lease(const PeerIdentity& peer,
                                                    const LeaseMessage& lease, std::uint32_t epoch,
                                                    FrameSocket& to);

  ObjectServer* server_;                          // null: this process has no objects
  std::map<std::uint64_t, PeerIdentity> leases_;  // by lease id, as the peer was then
};

}  // namespace tributary::memory
