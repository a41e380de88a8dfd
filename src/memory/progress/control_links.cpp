#include "memory/progress/control_links.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/socket/unix_socket.h"

namespace tributary::memory {
namespace {

constexpr Nanoseconds kFirstWait{20'000'000}, kLongestWait{320'000'000};  // to open a link again
constexpr Nanoseconds kAttempt{500'000'000};  // a network that is back answers a new connection
                                              // sooner than the old one goes on
constexpr int kQuietHeartbeats = 2;           // each is acknowledged
constexpr std::size_t kMaxUnsentBytes = std::size_t{16} << 20;

}  // namespace

Result<bool> ControlLinks::connect(const PoolJob& job, TimePoint deadline) {
  Result<Descriptor> socket = Refusal{"connect", "memory: the controller has no unix socket"};
  std::string where = job.unix_socket;
  way_ = {.endpoint = job.endpoint, .heartbeat = job.timers.heartbeat};
  if (!where.empty()) socket = connect_to_path(where);
  if (!socket) {  // on another host, or in another root directory
    where = job.endpoint;
    way_->is_network = true;
    const Result<Endpoint> endpoint = parse_endpoint(where);
    if (!endpoint) return endpoint.refusal();
    socket = start_connecting(endpoint.value());
  }
  if (!socket) return socket.refusal();
  add_controller(std::move(socket).value(), where, deadline, /*resumes=*/false);
  return true;
}

void ControlLinks::add_controller(Descriptor socket, const std::string& where, TimePoint deadline,
                                  bool resumes) {
  const SegmentRow row{.process = kControllerProcess, .incarnation = kFirstIncarnation};
  const PeerLink link = links_.connect(std::move(socket), row, where, deadline, resumes);
  by_link_[link] = {
      .role = Role::kController, .process = kControllerProcess, .incarnation = kFirstIncarnation};
  by_process_[kControllerProcess] = link;
}

void ControlLinks::send(std::uint16_t to, const Message& message) {
  const auto found = by_process_.find(to);
  if (found == by_process_.end()) return;
  // A full queue drops the message: what matters is sent again until it is acknowledged. Of a large
  // one no copy after the other waits for a peer that stands still.
  if (links_.unsent_bytes(found->second) > kMaxUnsentBytes) return;
  for (const FrameContent& frame : frames_of(message))
    (void)links_.post_control(found->second, frame.type, frame.body);
}

bool ControlLinks::open(const LinkOpened& event) {
  const std::uint16_t process = event.peer.process;
  if (refuses_newcomers_) {
    links_.close(event.link, CloseMode::kDrain);
    return false;
  }
  if (event.resumes) {
    ++reopened_;
    log_note(str("memory: process ", process, " has opened its broken link again"));
    // This end may not know yet that the old one is broken.
    const auto old = by_process_.find(process);
    if (old != by_process_.end() &&
        by_link_.at(old->second).incarnation == event.peer.incarnation) {
      const PeerLink broken = old->second;
      forget(broken);
      links_.close(broken, CloseMode::kForce);
    }
  }
  if (process == self_ || by_process_.contains(process)) {
    links_.refuse(event.link, {"taken", str("memory: a process with this number is connected: "
                                            "process ",
                                            process)});
    return false;
  }
  by_link_[event.link] = event.peer;
  by_process_[process] = event.link;
  return event.resumes;
}

void ControlLinks::forget(PeerLink link) {
  if (const auto peer = by_link_.extract(link)) by_process_.erase(peer.mapped().process);
  parts_.erase(link);
}

std::optional<Event> ControlLinks::take_frame(const PeerIdentity& from,
                                              const FrameReceived& event) {
  PeerIdentity sender = from;
  sender.epoch = event.frame.header.epoch;
  Result<std::optional<Message>> taken =
      parts_[event.link].take(event.frame.type(), event.frame.body);
  if (!taken) {
    links_.refuse(event.link, taken.refusal());  // its end is told when it comes
    return std::nullopt;
  }
  std::optional<Message> message = std::move(taken).value();
  if (!message) return std::nullopt;
  return MessageReceived{.from = sender, .message = *std::move(message)};
}

/// Nothing where this end opens the link again.
std::optional<Event> ControlLinks::take_end(const PeerIdentity& from, const LinkClosed& event,
                                            TimePoint now) {
  last_reason_ = event.reason;
  if (event.status == Status::kOk) return MessageReceived{.from = from, .message = ByeMessage{}};
  // An orderly end of a link that was heard, and a refusal here, are no faults of the network.
  if (may_reopen() && (event.is_broken || way_->reopen_at)) {
    reopen_later(now);
    return std::nullopt;
  }
  if (!way_ && event.is_broken) return LinkBroken{from.process, from.incarnation};
  return MemberLost{from.process, from.incarnation};
}

void ControlLinks::reopen_later(TimePoint now) {
  if (!way_->reopen_at) {
    log_note(str("memory: the link to the controller broke: ", last_reason_));
    way_->next_wait = kFirstWait;
  }
  way_->reopen_at =
      now + std::exchange(way_->next_wait, std::min(way_->next_wait * 2, kLongestWait));
}

void ControlLinks::keep_open(TimePoint now, const std::function<void(const Event&)>& tell) {
  if (!may_reopen()) return;
  // This process stood still: it has not listened.
  if (now - std::exchange(way_->turned, now) > way_->heartbeat) way_->heard = now;
  const auto open = by_process_.find(kControllerProcess);
  if (open != by_process_.end()) {
    if (now - way_->heard <= way_->heartbeat * kQuietHeartbeats) return;
    return links_.give_up(open->second, "memory: the controller is silent");
  }
  if (!way_->reopen_at || now < *way_->reopen_at) return;
  Result<Descriptor> socket = start_connecting(parse_endpoint(way_->endpoint).value());
  if (!socket) return reopen_later(now);
  way_->heard = now;
  add_controller(std::move(socket).value(), way_->endpoint, now + kAttempt, /*resumes=*/true);
  tell(LinkRenewed{kControllerProcess});  // what is sent now waits for the handshake
}

bool ControlLinks::poll(TimePoint now, const std::function<void(const Event&)>& tell) {
  std::array<Completion, 64> events;
  const std::size_t count = links_.poll(events, now);
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto* opened = std::get_if<LinkOpened>(&events[i]); opened && open(*opened))
      tell(LinkRenewed{opened->peer.process});
    if (const auto* received = std::get_if<FrameReceived>(&events[i]))
      if (const auto peer = by_link_.find(received->link); peer != by_link_.end()) {
        peer->second.epoch = received->frame.header.epoch;
        if (way_) {
          way_->is_heard = true;
          way_->heard = now;
          way_->reopen_at.reset();
        }
        if (const auto message = take_frame(peer->second, *received)) tell(*message);
      }
    if (const auto* closed = std::get_if<LinkClosed>(&events[i]))
      if (const auto peer = by_link_.find(closed->link); peer != by_link_.end()) {
        const PeerIdentity from = peer->second;
        forget(closed->link);
        if (const auto event = take_end(from, *closed, now)) tell(*event);
      }
  }
  keep_open(now, tell);
  return count > 0;
}

void ControlLinks::close(std::uint16_t process, CloseMode mode) {
  const auto found = by_process_.find(process);
  if (found != by_process_.end()) links_.close(found->second, mode);
}

void ControlLinks::close_all(CloseMode mode) {
  way_.reset();
  for (const auto& [process, link] : by_process_) links_.close(link, mode);
}

}  // namespace tributary::memory
