#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "memory/progress/pool_directory.h"
#include "memory/protocol/event.h"
#include "memory/transport/socket_links.h"
#include "memory/wire/parts.h"

namespace tributary::memory {

/// The links that carry messages between the controller and the other members, one for each.
///
/// A member's link over TCP that the network breaks, or on which it hears nothing for two
/// heartbeats, is opened again under the same epoch, as often as it takes: the timers of the
/// member's core and of the controller say when it is too late. Between two processes of one host
/// there is no network, and a link ends with the process.
///
/// Refusals are those of SocketLinks, `part` as PartCollector has them, and `taken`: a process with
/// this number is connected.
class ControlLinks {
 public:
  ControlLinks(const LinkEnd& end, const JobKey& key) : self_(end.self.process), links_(end, key) {}

  /// Connects to the controller of a job, over its unix socket or over TCP. Of a member, once.
  ///
  /// errors: Refusal (`connect`, `endpoint`)
  [[nodiscard]] Result<bool> connect(const PoolJob& job, TimePoint deadline);
  /// Sends a message; what goes to a process without a link is dropped, as messages may be, and
  /// what goes to one that has not taken the last 16 MiB.
  void send(std::uint16_t to, const Message& message);
  /// Tells what came in: messages, BYE where a link was closed in order, MemberLost where its
  /// process has ended, LinkBroken and LinkRenewed where the network failed. Returns whether there
  /// was anything.
  bool poll(TimePoint now, const std::function<void(const Event&)>& tell);
  void close(std::uint16_t process, CloseMode mode);
  void close_all(CloseMode mode);
  /// Lets nobody in any more: a process that connects is told BYE.
  void refuse_newcomers() { refuses_newcomers_ = true; }

  /// Why the last link was closed.
  [[nodiscard]] const std::string& last_reason() const { return last_reason_; }
  /// Links of members that the network had broken.
  [[nodiscard]] std::uint64_t reopened() const { return reopened_; }
  [[nodiscard]] bool has_links() const { return !by_link_.empty(); }
  [[nodiscard]] SocketLinks& links() { return links_; }

 private:
  /// A member's way to the controller.
  struct Way {
    std::string endpoint;
    Nanoseconds heartbeat;
    bool is_network = false, is_heard = false;
    TimePoint heard{};                        // the controller, or when the link was opened
    std::optional<TimePoint> reopen_at = {};  // empty: the controller is heard
    Nanoseconds next_wait{};
    TimePoint turned{};  // of poll()
  };

  /// Whether a member has opened its broken link again.
  bool open(const LinkOpened& event);
  /// None while parts of a message are missing, or where it is refused.
  [[nodiscard]] std::optional<Event> take_frame(const PeerIdentity& from,
                                                const FrameReceived& event);
  void add_controller(Descriptor socket, const std::string& where, TimePoint deadline,
                      bool resumes);
  [[nodiscard]] std::optional<Event> take_end(const PeerIdentity& from, const LinkClosed& event,
                                              TimePoint now);
  void forget(PeerLink link);
  [[nodiscard]] bool may_reopen() const { return way_ && way_->is_network && way_->is_heard; }
  void reopen_later(TimePoint now);
  /// Opens a member's link again where it is time to.
  void keep_open(TimePoint now, const std::function<void(const Event&)>& tell);

  std::uint16_t self_;
  SocketLinks links_;
  std::map<PeerLink, PeerIdentity> by_link_;
  std::map<std::uint16_t, PeerLink> by_process_;
  std::map<PeerLink, PartCollector> parts_;
  std::optional<Way> way_;  // of a member
  std::uint64_t reopened_ = 0;
  bool refuses_newcomers_ = false;
  std::string last_reason_;
};

}  // namespace tributary::memory
