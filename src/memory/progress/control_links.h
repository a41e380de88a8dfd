#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "memory/progress/pool_directory.h"
#include "memory/protocol/event.h"
#include "memory/transport/socket_links.h"
#include "memory/wire/parts.h"

namespace tributary::memory {

/// The links that carry messages between the controller and the other members, one for each.
///
/// Refusals are those of SocketLinks, and `taken`: a process with this number is connected.
class ControlLinks {
 public:
  ControlLinks(const LinkEnd& end, const JobKey& key) : self_(end.self.process), links_(end, key) {}

  /// Connects to the controller of a job, over its unix socket or over TCP.
  ///
  /// errors: Refusal (`connect`, `endpoint`)
  [[nodiscard]] Result<bool> connect(const PoolJob& job, TimePoint deadline);
  /// Sends a message; what goes to a process without a link is dropped, as messages may be.
  void send(std::uint16_t to, const Message& message);
  /// Tells what came in: messages, BYE where a link was closed in order, MemberLost where it broke.
  /// Returns whether there was anything.
  bool poll(TimePoint now, const std::function<void(const Event&)>& tell);
  void close(std::uint16_t process, CloseMode mode);
  void close_all(CloseMode mode);
  /// Lets nobody in any more: a process that connects is told BYE.
  void refuse_newcomers() { refuses_newcomers_ = true; }

  /// Why the last link was closed.
  [[nodiscard]] const std::string& last_reason() const { return last_reason_; }
  [[nodiscard]] bool has_links() const { return !by_link_.empty(); }
  [[nodiscard]] SocketLinks& links() { return links_; }

 private:
  void open(const LinkOpened& event);
  /// None while parts of a message are missing, or where it is refused.
  [[nodiscard]] std::optional<Event> take_frame(const PeerIdentity& from,
                                                const FrameReceived& event);
  [[nodiscard]] Event take_end(const PeerIdentity& from, const LinkClosed& event);

  std::uint16_t self_;
  SocketLinks links_;
  std::map<PeerLink, PeerIdentity> by_link_;
  std::map<std::uint16_t, PeerLink> by_process_;
  std::map<PeerLink, PartCollector> parts_;
  bool refuses_newcomers_ = false;
  std::string last_reason_;
};

}  // namespace tributary::memory
