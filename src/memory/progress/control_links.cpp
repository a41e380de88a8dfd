#include "memory/progress/control_links.h"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/socket/unix_socket.h"

namespace tributary::memory {
Result<bool> ControlLinks::connect(const PoolJob& job, TimePoint deadline) {
  Result<Descriptor> socket = Refusal{"connect", "memory: the controller has no unix socket"};
  std::string where = job.unix_socket;
  if (!where.empty()) socket = connect_to_path(where);
  if (!socket) {  // on another host, or in another root directory
    where = job.endpoint;
    const Result<Endpoint> endpoint = parse_endpoint(where);
    if (!endpoint) return endpoint.refusal();
    socket = start_connecting(endpoint.value());
  }
  if (!socket) return socket.refusal();
  const SegmentRow row{.process = kControllerProcess, .incarnation = kFirstIncarnation};
  const PeerLink link = links_.connect(std::move(socket).value(), row, where, deadline);
  by_link_[link] = {
      .role = Role::kController, .process = kControllerProcess, .incarnation = kFirstIncarnation};
  by_process_[kControllerProcess] = link;
  return true;
}

void ControlLinks::send(std::uint16_t to, const Message& message) {
  const auto found = by_process_.find(to);
  if (found == by_process_.end()) return;
  // A full queue drops the message: what matters is sent again until it is acknowledged.
  for (const FrameContent& frame : frames_of(message))
    (void)links_.post_control(found->second, frame.type, frame.body);
}

void ControlLinks::open(const LinkOpened& event) {
  const std::uint16_t process = event.peer.process;
  if (refuses_newcomers_) return links_.close(event.link, CloseMode::kDrain);
  if (process == self_ || by_process_.contains(process))
    return links_.refuse(event.link, {"taken", str("memory: a process with this number is "
                                                   "connected: process ",
                                                   process)});
  by_link_[event.link] = event.peer;
  by_process_[process] = event.link;
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

Event ControlLinks::take_end(const PeerIdentity& from, const LinkClosed& event) {
  last_reason_ = event.reason;
  if (event.status == Status::kOk) return MessageReceived{.from = from, .message = ByeMessage{}};
  return MemberLost{from.process};
}

bool ControlLinks::poll(TimePoint now, const std::function<void(const Event&)>& tell) {
  std::array<Completion, 64> events;
  const std::size_t count = links_.poll(events, now);
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto* opened = std::get_if<LinkOpened>(&events[i])) open(*opened);
    if (const auto* received = std::get_if<FrameReceived>(&events[i]))
      if (const auto peer = by_link_.find(received->link); peer != by_link_.end()) {
        peer->second.epoch = received->frame.header.epoch;
        if (const auto message = take_frame(peer->second, *received)) tell(*message);
      }
    if (const auto* closed = std::get_if<LinkClosed>(&events[i]))
      if (const auto peer = by_link_.extract(closed->link)) {
        by_process_.erase(peer.mapped().process);
        parts_.erase(closed->link);
        tell(take_end(peer.mapped(), *closed));
      }
  }
  return count > 0;
}

void ControlLinks::close(std::uint16_t process, CloseMode mode) {
  const auto found = by_process_.find(process);
  if (found != by_process_.end()) links_.close(found->second, mode);
}

void ControlLinks::close_all(CloseMode mode) {
  for (const auto& [process, link] : by_process_) links_.close(link, mode);
}

}  // namespace tributary::memory
