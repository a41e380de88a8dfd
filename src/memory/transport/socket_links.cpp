#include "memory/transport/socket_links.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/socket/unix_socket.h"
#include "memory/transport/socket_connection.h"
#include "memory/wire/messages.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;  // bytes of one connection in one poll()
constexpr TimePoint kScanEvery = {5'000'000};
constexpr std::uint64_t kListening = std::uint64_t{1} << 63;  // marks listeners in epoll's numbers
constexpr std::uint64_t kSignal = kListening - 1;

/// Who may send what; the frames of the handshake and GET_REPLY have rules of their own.
bool may_send(Role role, FrameType type) {
  switch (type) {
    case FrameType::kEpoch:
    case FrameType::kAssign:
    case FrameType::kPlan:
    case FrameType::kCommit:
    case FrameType::kCredit:
    case FrameType::kPart:
      return role == Role::kController;
    case FrameType::kPublish:
    case FrameType::kRetract:
      return role != Role::kConsumer;
    case FrameType::kJoin:
      return role == Role::kProducer;
    case FrameType::kResolve:
    case FrameType::kWorker:
      return role != Role::kController;
    case FrameType::kHeartbeat:
    case FrameType::kAck:
    case FrameType::kFail:
    case FrameType::kBye:
      return true;
    default:
      return false;
  }
}

}  // namespace

SocketLinks::SocketLinks(LinkEnd end, const JobKey& key)
    : end_(std::move(end)),
      key_(key),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      spare_(eventfd(0, EFD_CLOEXEC)),
      signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = kSignal}};
  if (!epoll_ || !spare_ || !signal_ ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, signal_.get(), &event) != 0)
    TRIB_RAISE(Fault::kResource, .what = "memory: links cannot be watched",
               .found = std::strerror(errno), .fix = "raise `ulimit -n`");
}

SocketLinks::~SocketLinks() {
  for (const auto& [link, connection] : connections_)
    connection->served.end_all(connection->socket);
}

void SocketLinks::listen(Descriptor listening) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = kListening | listening_.size()}};
  TRIB_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listening.get(), &event) == 0,
             .what = "memory: listening socket cannot be watched", .found = std::strerror(errno));
  listening_.push_back(std::move(listening));
}

SocketLinks::Connection* SocketLinks::find(PeerLink link) {
  const auto found = connections_.find(link);
  const bool is_there = found != connections_.end() && found->second->stage != Stage::kEnded;
  return is_there ? found->second.get() : nullptr;
}

SocketLinks::Connection& SocketLinks::add(Descriptor socket, std::string where) {
  const PeerLink link{++last_number_};
  const int descriptor = socket.get();
  auto made = std::make_unique<Connection>(Connection{.socket = FrameSocket(std::move(socket)),
                                                      .link = link,
                                                      .where = std::move(where),
                                                      .gets = PostedGets(done_),
                                                      .served = ServedPeer(end_.server)});
  Connection& at = *connections_.emplace(link, std::move(made)).first->second;
  at.watched = EPOLLIN;
  epoll_event event = {.events = at.watched, .data = {.u64 = static_cast<std::uint64_t>(link)}};
  TRIB_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0,
             .what = "memory: link cannot be watched", .found = std::strerror(errno));
  return at;
}

PeerLink SocketLinks::connect(Descriptor socket, const SegmentRow& row, std::string where,
                              TimePoint deadline, bool resumes) {
  Connection& at = add(std::move(socket), std::move(where));
  at.stage = Stage::kConnecting;
  at.deadline = deadline;
  Membership self = end_.self;
  self.resumes = resumes;
  at.client.emplace(self, key_, draw_nonce());
  at.expected_process = row.process;
  at.expected_incarnation = row.incarnation;
  watch(at);
  return at.link;
}

// Sending and receiving.

void SocketLinks::watch(Connection& at) {
  const bool sends = at.stage == Stage::kConnecting || at.socket.has_unsent();
  const bool reads = at.stage != Stage::kClosing && at.socket.unsent_frames() < kMaxUnsent;
  const std::uint32_t events = (sends ? EPOLLOUT : 0U) | (reads ? EPOLLIN : 0U);
  if (at.stage == Stage::kEnded || events == at.watched) return;
  at.watched = events;
  epoll_event event = {.events = events, .data = {.u64 = static_cast<std::uint64_t>(at.link)}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, at.socket.descriptor(), &event);
}

Status SocketLinks::queue(Connection& at, OutgoingFrame frame) {
  if (at.cannot_send) return Status::kPeerLost;
  if (at.is_full()) return Status::kBusy;
  if (at.stage != Stage::kOpen) {
    at.held.push_back(std::move(frame));
    return Status::kOk;
  }
  at.socket.queue(std::move(frame));
  flush(at);
  return at.stage == Stage::kEnded || at.cannot_send ? Status::kPeerLost : Status::kOk;
}

void SocketLinks::flush(Connection& at) {
  std::vector<std::uint64_t> ended;
  const bool works = at.socket.flush(ended);
  at.served.end_grants(ended);
  if (!works && at.stage == Stage::kOpen) {  // a BYE may have come, which read() finds
    at.cannot_send = true;
    ended.clear();
    at.socket.drop_unsent(ended);
    at.served.end_grants(ended);
    return watch(at);
  }
  if (!works) return lose(at, Status::kPeerLost, at.socket.error());
  if (at.stage == Stage::kClosing && !at.socket.has_unsent())
    return at.refused ? end(at, Status::kBackend, at.refused->reason)
                      : end(at, Status::kOk, "memory: closed on this side");
  watch(at);
}

void SocketLinks::serve(Connection& at, std::uint32_t ready) {
  if (at.stage == Stage::kConnecting) {
    if (const int failure = failure_of(at.socket.descriptor()); failure != 0)
      return lose(at, Status::kPeerLost, std::strerror(failure));
    if ((ready & EPOLLOUT) == 0) return;
    greet(at);
  }
  if (at.socket.has_unsent() || at.stage == Stage::kClosing) flush(at);
  if (at.stage == Stage::kHandshake || at.stage == Stage::kOpen) read(at);
}

void SocketLinks::read(Connection& at) {
  std::size_t budget = kReadAtOnce;
  Frame frame;
  while (at.stage == Stage::kHandshake || at.stage == Stage::kOpen) {
    if (at.socket.unsent_frames() >= kMaxUnsent) break;  // a peer that asks and does not listen
    switch (at.socket.receive(frame, budget)) {
      case FrameSocket::Event::kNothing:
        if (at.socket.has_unsent()) flush(at);
        return;
      case FrameSocket::Event::kFrame:
        take_frame(at, std::move(frame));
        break;
      case FrameSocket::Event::kPayload:
        if (const auto fault = at.gets.take_payload_end(at.socket)) return refuse(at, *fault);
        break;
      case FrameSocket::Event::kClosed:
        return at.socket.is_at_end() ? end(at, Status::kPeerLost, at.socket.error())
                                     : lose(at, Status::kPeerLost, at.socket.error());
      case FrameSocket::Event::kMalformed:
        refusals_.add(at.socket.refusal(), at.where, now_);
        return lose(at, Status::kBackend, at.socket.refusal().reason);
    }
  }
  if (at.stage != Stage::kEnded) flush(at);
}

void SocketLinks::take_frame(Connection& at, Frame frame) {
  at.peer.epoch = frame.header.epoch;
  if (at.stage == Stage::kOpen) return take_message(at, std::move(frame));
  if (const auto fault = take_handshake(at, frame)) refuse(at, *fault);
}

void SocketLinks::take_message(Connection& at, Frame frame) {
  const FrameType type = frame.type();
  if (type == FrameType::kBye) return end(at, Status::kOk, "memory: closed by the peer");
  if (type == FrameType::kGetReply) {
    if (const auto fault = at.gets.take_reply(frame, at.socket)) refuse(at, *fault);
  } else if (type == FrameType::kGet || type == FrameType::kLease || type == FrameType::kUnlease) {
    at.refused = at.served.answer(at.peer, frame, end_.epoch, at.socket);
    if (!at.refused) return;
    refusals_.add(*at.refused, at.where, now_);
    close_when_sent(at);
  } else if (may_send(at.peer.role, type)) {
    events_.emplace_back(FrameReceived{at.link, std::move(frame)});
  } else {
    refuse(at, {"role", str("memory: peer may not send this: rank ", at.peer.rank, ", type ",
                            name_of(type))});
  }
}

std::size_t SocketLinks::poll(std::span<Completion> out, TimePoint now) {
  now_ = now;
  std::array<epoll_event, 64> ready;
  const bool has_room = events_.size() < out.size();
  const int count =
      has_room ? epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0) : 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = ready[static_cast<std::size_t>(i)].data.u64;
    if (number == kSignal) continue;
    if ((number & kListening) != 0)
      accept_all(listening_[number & ~kListening].get());
    else if (Connection* at = find(PeerLink{number}))
      serve(*at, ready[static_cast<std::size_t>(i)].events);
  }
  if (now_ >= next_scan_) scan_deadlines();
  report_transfers();
  if (std::exchange(has_ended_, false))
    std::erase_if(connections_,
                  [](const auto& each) { return each.second->stage == Stage::kEnded; });

  const std::size_t reported = hand_over(events_, out);
  std::uint64_t counter = 1;
  [[maybe_unused]] const ssize_t bytes = events_.empty()
                                             ? ::read(signal_.get(), &counter, sizeof counter)
                                             : write(signal_.get(), &counter, sizeof counter);
  return reported;
}

void SocketLinks::report_transfers() {
  for (const TransferDone& done : done_) events_.emplace_back(done);
  done_.clear();
}

void SocketLinks::scan_deadlines() {
  next_scan_ = now_ + kScanEvery;
  for (const auto& [link, connection] : connections_) {
    Connection& at = *connection;
    if (at.stage == Stage::kEnded) continue;
    at.gets.expire(now_, at.socket);
    if (at.drains) close(link, CloseMode::kDrain);
    if (at.stage == Stage::kOpen || at.stage == Stage::kEnded || now_ < at.deadline) continue;
    if (at.stage == Stage::kHandshake && !at.client)
      refuse(at, {"handshake", "memory: peer does not finish the handshake in time"});
    else
      lose(at, Status::kTimeout, "memory: no answer in time");
  }
}

// What this process asks for.

Result<TransferId> SocketLinks::post_get(PeerLink link, const ObjectHandle& handle,
                                         std::span<std::byte> into, TimePoint deadline) {
  check_buffer(into, handle);
  Connection* at = find(link);
  if (at == nullptr || at->stage == Stage::kClosing || at->drains)
    return Refusal{"peer_lost", "memory: link is closed"};
  if (into.size() > kMaxPayloadBytes)
    return Refusal{"backend", str("memory: object is larger than one GET: ", into.size(),
                                  " bytes, limit ", kMaxPayloadBytes)};
  if (at->is_full()) return Refusal{"busy", "memory: too many messages wait for the peer"};
  const TransferId transfer{++last_number_};
  const GetRequest request = whole_object(handle.fields, static_cast<std::uint64_t>(transfer));
  at->gets.add(transfer,
               {.into = into, .crc32c = checksum_of(handle.fields), .deadline = deadline});
  // A link that breaks here ends the transfer as any other.
  (void)queue(
      *at, {.frame = frame_bytes(FrameType::kGet, end_.epoch, request.request, body_of(request))});
  return transfer;
}

Status SocketLinks::post_control(PeerLink link, FrameType type, std::span<const std::byte> body) {
  Connection* at = find(link);
  if (at == nullptr || at->stage == Stage::kClosing) return Status::kPeerLost;
  return queue(*at, {.frame = frame_bytes(type, end_.epoch, 0, body)});
}

std::size_t SocketLinks::unsent_bytes(PeerLink link) {
  const Connection* at = find(link);
  if (at == nullptr) return 0;
  std::size_t bytes = at->socket.unsent_bytes();
  for (const OutgoingFrame& frame : at->held) bytes += frame.frame.size();
  return bytes;
}

Status SocketLinks::send_descriptor(PeerLink link, FrameType type, std::span<const std::byte> body,
                                    int descriptor) {
  Connection* at = find(link);
  if (at == nullptr || at->stage == Stage::kClosing) return Status::kPeerLost;
  return queue(*at, {.frame = frame_bytes(type, end_.epoch, 0, body), .descriptor = descriptor});
}

Descriptor SocketLinks::take_descriptor(PeerLink link) {
  Connection* at = find(link);
  return at == nullptr ? Descriptor() : at->socket.take_descriptor();
}

void SocketLinks::close(PeerLink link, CloseMode mode) {
  Connection* at = find(link);
  if (at == nullptr || (at->stage == Stage::kClosing && mode == CloseMode::kDrain)) return;
  if (mode == CloseMode::kForce) return end(*at, Status::kBackend, "memory: closed on this side");
  at->drains = true;  // asked again when the last GET has ended
  if (!at->gets.empty() || !at->held.empty()) return;
  if (at->stage != Stage::kOpen) return end(*at, Status::kOk, "memory: closed on this side");
  at->socket.queue({.frame = frame_bytes(FrameType::kBye, end_.epoch, 0, {})});
  close_when_sent(*at);
}

void SocketLinks::close_when_sent(Connection& at) {
  at.stage = Stage::kClosing;
  at.deadline = now_ + end_.limits.handshake;
  flush(at);
}

// The end of a connection.

void SocketLinks::refuse(PeerLink link, const Refusal& refusal) {
  if (Connection* at = find(link)) refuse(*at, refusal);
}

void SocketLinks::refuse(Connection& at, const Refusal& refusal) {
  refusals_.add(refusal, at.where, now_);
  end(at, Status::kBackend, refusal.reason);
}

void SocketLinks::give_up(PeerLink link, const std::string& reason) {
  if (Connection* at = find(link)) lose(*at, Status::kTimeout, reason);
}

void SocketLinks::lose(Connection& at, Status status, const std::string& reason) {
  // A reset, so that the other end does not take this process for ended.
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(at.socket.descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  // No network lies between two processes of a host: there the other one has ended.
  end(at, status, reason, /*is_broken=*/!is_unix_socket(at.socket.descriptor()));
}

void SocketLinks::end(Connection& at, Status status, const std::string& reason, bool is_broken) {
  if (at.stage == Stage::kEnded) return;
  const bool is_known =
      at.client.has_value() || at.stage == Stage::kOpen || at.stage == Stage::kClosing;
  at.stage = Stage::kEnded;
  has_ended_ = true;
  at.gets.end_all(status == Status::kOk ? Status::kBackend : status);
  at.served.end_all(at.socket);
  report_transfers();
  if (is_known) events_.emplace_back(LinkClosed{at.link, status, reason, is_broken});
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at.socket.descriptor(), nullptr);
  at.socket.close();
}

}  // namespace tributary::memory
