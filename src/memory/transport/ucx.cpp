#include "memory/transport/ucx.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/log.h"
#include "memory/transport/tcp.h"
#include "memory/transport/ucx/network_devices.h"
#include "memory/wire/messages.h"

namespace tributary::memory {
namespace {

constexpr std::uint64_t kReply = std::uint64_t{1} << 63;       // marks replies among cookies
constexpr std::size_t kCheckedAtOnce = std::size_t{64} << 10;  // bytes, on the progress thread
constexpr TimePoint kExpirePullsEvery = {5'000'000};

}  // namespace

/// A GetRequest or a GetReply follows.
struct Ucx::Head {
  std::uint64_t link = 0;
  Mac token{};
  std::uint32_t epoch = 0, zero = 0;  // of the sender
};

Ucx::Ucx(LinkEnd end, const JobKey& key, std::unique_ptr<MessageWorker> worker)
    : end_(std::move(end)),
      links_(end_, key),
      worker_(std::move(worker)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      checks_(1) {
  for (const int descriptor :
       {links_.wake_fd(), worker_->descriptor(), signal_.get(), checks_.wake_fd()})
    watch(epoll_.get(), descriptor);
}

Ucx::~Ucx() {
  for (auto& [link, peer] : peers_) close_path(peer);
  const auto is_under_way = [this] {
    return !replies_.empty() || std::ranges::any_of(pulls_, [](const auto& each) {
      return each.second.stage == Stage::kReceiving;
    });
  };
  while (is_under_way()) worker_->progress(*this);
}

const TransportTraits& Ucx::traits() const {
  static const TransportTraits kTraits{.engine = Engine::kUcx,
                                       .name = "ucx",
                                       .reach = Reach::kNetwork,
                                       .reads_dram = true,
                                       .reads_hbm = false,
                                       .needs_owner_progress = true,
                                       .bounds_checked_by_owner = true,
                                       .cancellable = false};
  return kTraits;
}

// Links: who is there, and how to reach it.

Result<PeerLink> Ucx::connect(const SegmentRow& row, TimePoint deadline) {
  const Result<PeerLink> link = connect_over_tcp(links_, row, Engine::kUcx, deadline);
  if (link) introduce(link.value(), peers_[link.value()]);
  return link;
}

void Ucx::introduce(PeerLink link, Peer& peer) {
  peer.own_token = draw_nonce();
  const std::span<const std::byte> address = worker_->address();
  const WorkerMessage message{.link = static_cast<std::uint64_t>(link),
                              .token = peer.own_token,
                              .address = {address.begin(), address.end()}};
  (void)links_.post_control(link, FrameType::kWorker, body_of(message));
}

void Ucx::take_worker(const FrameReceived& received) {
  Result<Message> message = parse_message(FrameType::kWorker, received.frame.body);
  if (!message) return links_.refuse(received.link, message.refusal());
  Peer& peer = peers_.at(received.link);
  if (peer.path || peer.closed)
    return links_.refuse(received.link, {"worker", "memory: peer names a second worker"});
  const auto& worker = std::get<WorkerMessage>(message.value());
  if (worker.address.empty())
    return links_.refuse(received.link, {"worker", "memory: peer names a worker without address"});
  const Result<MessagePath> path = worker_->open(worker.address);
  if (!path) return links_.refuse(received.link, path.refusal());
  peer.number = worker.link;
  peer.token = worker.token;
  peer.path = path.value();
  std::ranges::move(std::exchange(peer.early, {}), std::back_inserter(asked_));
  for (auto& [id, pull] : pulls_)
    if (pull.link == received.link) ask(id, pull);
}

void Ucx::take_event(Completion event) {
  if (const auto* opened = std::get_if<LinkOpened>(&event)) {
    Peer& peer = peers_[opened->link];
    peer.identity = opened->peer;
    introduce(opened->link, peer);
  }
  if (const auto* received = std::get_if<FrameReceived>(&event);
      received != nullptr && received->frame.type() == FrameType::kWorker)
    return take_worker(*received);
  if (const auto* closed = std::get_if<LinkClosed>(&event))
    if (const auto peer = peers_.find(closed->link); peer != peers_.end())
      return lose(closed->link, peer->second, *closed);
  events_.push_back(std::move(event));
}

void Ucx::lose(PeerLink link, Peer& peer, LinkClosed closed) {
  const Status status = closed.status == Status::kOk ? Status::kBackend : closed.status;
  for (auto pull = pulls_.begin(); pull != pulls_.end();) {
    const auto each = pull++;
    if (each->second.link != link) continue;
    if (each->second.stage < Stage::kReceiving)
      end_pull(each, status);
    else if (!each->second.failed)
      each->second.failed = status;
  }
  peer.closed = std::move(closed);
  close_path(peer);
}

void Ucx::close_path(Peer& peer) {
  if (peer.path) worker_->close(*std::exchange(peer.path, std::nullopt));
}

void Ucx::close(PeerLink link, CloseMode mode) {
  const auto peer = peers_.find(link);
  if (peer == peers_.end() || mode == CloseMode::kForce) return links_.close(link, mode);
  peer->second.drains = true;
}

void Ucx::close_idle() {
  for (auto each = peers_.begin(); each != peers_.end();) {
    auto& [link, peer] = *each;
    const bool is_idle = std::ranges::none_of(
        pulls_, [own = link](const auto& pull) { return pull.second.link == own; });
    if (is_idle && peer.drains && !peer.closed) links_.close(link, CloseMode::kDrain);
    if (is_idle && peer.closed) events_.emplace_back(*std::move(peer.closed));
    each = is_idle && peer.closed ? peers_.erase(each) : std::next(each);
  }
}

// The reader's side.

Result<TransferId> Ucx::post_get(PeerLink link, const ObjectHandle& handle,
                                 std::span<std::byte> into, TimePoint deadline) {
  check_buffer(into, handle);
  const auto peer = peers_.find(link);
  if (peer == peers_.end() || peer->second.closed || peer->second.drains)
    return Refusal{"peer_lost", "memory: link is closed"};
  if (into.size() > kMaxPayloadBytes)
    return Refusal{"backend", str("memory: object is larger than one GET: ", into.size(),
                                  " bytes, limit ", kMaxPayloadBytes)};
  const TransferId id{++last_transfer_};
  Pull& pull = pulls_[id];
  pull = {.link = link,
          .request = whole_object(handle.fields, last_transfer_),
          .into = into,
          .crc32c = checksum_of(handle.fields),
          .deadline = deadline};
  if (peer->second.path) ask(id, pull);
  set_signal(true);
  return id;
}

void Ucx::ask(TransferId id, Pull& pull) {
  const Peer& peer = peers_.at(pull.link);
  pull.stage = Stage::kAsked;
  ByteWriter head;
  head.put(Head{.link = peer.number, .token = peer.token, .epoch = end_.epoch});
  head.put(pull.request);
  worker_->send(*peer.path, MessageKind::kGet, head.take(), {}, static_cast<std::uint64_t>(id));
}

MessagePlace Ucx::take_reply(PeerLink link, const GetReply& reply, std::uint64_t bytes) {
  const auto found = pulls_.find(TransferId{reply.request});
  if (found == pulls_.end() || found->second.link != link) return {};  // it came too late
  Pull& pull = found->second;
  const auto status = static_cast<Status>(reply.status);
  const bool is_asked = pull.stage == Stage::kAsked && reply.payload_bytes == bytes;
  if (is_asked && status != Status::kOk && status <= Status::kCorrupt && bytes == 0) {
    end_pull(found, status);
    return {};
  }
  if (!is_asked || status != Status::kOk || bytes != pull.into.size()) {
    links_.refuse(
        link, {"reply", str("memory: peer answers a GET in another way: payload_bytes = ",
                            reply.payload_bytes, ", came ", bytes, ", status = ", reply.status)});
    return {};
  }
  pull.stage = Stage::kReceiving;
  return {.into = pull.into, .cookie = reply.request};
}

void Ucx::placed(std::uint64_t cookie, bool whole) {
  const auto pull = pulls_.find(TransferId{cookie});
  if (pull->second.failed) return end_pull(pull, *pull->second.failed);
  if (!whole) return end_pull(pull, Status::kPeerLost);
  check(pull->first, pull->second);
}

void Ucx::check(TransferId id, Pull& pull) {
  if (!pull.crc32c) return end_pull(pulls_.find(id), Status::kOk);
  pull.stage = Stage::kChecking;
  const auto end = [this, id](bool is_same) {
    const auto found = pulls_.find(id);
    const Pull& checked = found->second;
    if (!is_same && !checked.failed)
      links_.refuse(checked.link, {"crc", "memory: bytes of a GET have another checksum"});
    end_pull(found, checked.failed.value_or(is_same ? Status::kOk : Status::kCorrupt));
  };
  if (pull.into.size() <= kCheckedAtOnce) return end(crc32c(pull.into) == *pull.crc32c);
  checks_.run([end, into = pull.into, crc = *pull.crc32c]() -> std::function<void()> {
    return [end, is_same = crc32c(into) == crc] { end(is_same); };
  });
}

void Ucx::end_pull(Pulls::iterator pull, Status status) {
  events_.emplace_back(TransferDone{pull->first, status});
  pulls_.erase(pull);
}

void Ucx::expire() {
  next_scan_ = now_ + kExpirePullsEvery;
  for (auto pull = pulls_.begin(); pull != pulls_.end();) {
    const auto each = pull++;
    Pull& late = each->second;
    if (now_ < late.deadline || late.failed || late.stage == Stage::kChecking) continue;
    if (late.stage != Stage::kReceiving) {
      end_pull(each, Status::kTimeout);
      continue;
    }
    late.failed = Status::kTimeout;  // once UCX has let go of the buffer
    links_.close(late.link, CloseMode::kForce);
  }
}

// The owner's side.

void Ucx::answer(const Asked& asked) {
  const auto found = peers_.find(asked.link);
  if (found == peers_.end() || found->second.closed) return;
  Peer& peer = found->second;
  if (!peer.path) return peer.early.push_back(asked);
  if (end_.server == nullptr || peer.identity.role == Role::kController)
    return links_.refuse(
        asked.link, {"role", str("memory: peer may not read here: rank ", peer.identity.rank)});
  PeerIdentity reader = peer.identity;
  reader.epoch = asked.epoch;
  Grant grant = end_.server->grant(reader, asked.request);
  if (grant.status == Status::kBounds)
    peer.refused = Refusal{
        "bounds", str("memory: request outside the object: rank ", reader.rank,
                      ", offset = ", asked.request.offset, ", length = ", asked.request.length)};
  ByteWriter head;
  head.put(Head{.link = peer.number, .token = peer.token, .epoch = end_.epoch});
  head.put(GetReply{.request = asked.request.request,
                    .payload_bytes = grant.status == Status::kOk ? asked.request.length : 0,
                    .status = static_cast<std::uint32_t>(grant.status),
                    .crc32c = grant.crc32c});
  const std::uint64_t cookie = kReply | ++last_reply_;
  replies_[cookie] = {.link = asked.link, .grant = grant.id};
  worker_->send(*peer.path, MessageKind::kReply, head.take(), std::move(grant.parts), cookie);
}

// What the worker tells.

MessagePlace Ucx::arrived(MessageKind kind, std::span<const std::byte> bytes_of_head,
                          std::uint64_t bytes) {
  ByteReader from(bytes_of_head);
  const auto head = from.get<Head>();
  const PeerLink link{head.link};
  const auto peer = peers_.find(link);
  if (from.failed() || peer == peers_.end() || peer->second.closed ||
      !are_equal(head.token, peer->second.own_token)) {
    strangers_.add({"stranger", "memory: a message comes from a worker of no open link"}, "ucx",
                   now_);
    return {};
  }
  const auto request = kind == MessageKind::kGet ? from.get<GetRequest>() : GetRequest{};
  const auto reply = kind == MessageKind::kReply ? from.get<GetReply>() : GetReply{};
  const bool is_whole = from.finished() && head.zero == 0;
  if (is_whole && kind == MessageKind::kReply) return take_reply(link, reply, bytes);
  if (is_whole && kind == MessageKind::kGet && bytes == 0)
    asked_.push_back({.link = link, .epoch = head.epoch, .request = request});
  else
    links_.refuse(link, {"frame", str("memory: peer sends a message of another form: head ",
                                      bytes_of_head.size(), " B, ", bytes, " B behind it")});
  return {};
}

void Ucx::sent(std::uint64_t cookie, bool whole) {
  const auto reply = replies_.extract(cookie);
  if (reply.empty()) {  // of a GET
    const auto pull = pulls_.find(TransferId{cookie});
    if (!whole && pull != pulls_.end() && pull->second.stage == Stage::kAsked)
      end_pull(pull, Status::kPeerLost);
    return;
  }
  if (reply.mapped().grant != 0) end_.server->end_grant(reply.mapped().grant);
  const auto peer = peers_.find(reply.mapped().link);
  if (peer != peers_.end() && peer->second.refused)
    links_.refuse(peer->first, *std::exchange(peer->second.refused, std::nullopt));
}

void Ucx::failed(MessagePath path, const std::string& why) {
  for (const auto& [link, peer] : peers_)
    if (peer.path == path)
      return links_.refuse(link, {"ucx", str("memory: UCX lost the peer: ", why)});
}

std::size_t Ucx::poll(std::span<Completion> out, TimePoint now) {
  now_ = now;
  bool had_work = worker_->progress(*this);
  std::array<Completion, 64> events;
  const bool has_room = events_.size() < out.size();
  const std::size_t count = has_room ? links_.poll(events, now) : 0;
  if (count > 0) worker_->progress(*this);  // what a peer said before it closed
  for (std::size_t i = 0; i < count; ++i) take_event(std::move(events[i]));
  had_work |= count > 0 || !asked_.empty();
  for (const Asked& asked : std::exchange(asked_, {})) answer(asked);
  checks_.collect();
  if (now_ >= next_scan_) expire();
  close_idle();

  const std::size_t reported = hand_over(events_, out);
  set_signal(had_work || reported > 0 || !events_.empty() || !worker_->may_sleep());
  return reported;
}

void Ucx::set_signal(bool is_readable) {
  if (std::exchange(is_signalled_, is_readable) == is_readable) return;
  std::uint64_t counter = 1;
  [[maybe_unused]] const ssize_t bytes = is_readable
                                             ? write(signal_.get(), &counter, sizeof counter)
                                             : ::read(signal_.get(), &counter, sizeof counter);
}

Result<std::unique_ptr<Ucx>> open_ucx(const LinkEnd& end, const JobKey& key,
                                      const std::string& host) {
  const Result<const MessageLibrary*> library = load_message_library();
  if (!library) return library.refusal();
  const std::string devices = network_devices_of(host);
  if (devices.empty() && std::getenv("UCX_NET_DEVICES") == nullptr)
    return Refusal{"ucx", str("memory: no interface of this machine has the address ", host,
                              "; give one of `ip address` as pool.bind, or set UCX_NET_DEVICES")};
  Result<std::unique_ptr<MessageWorker>> worker = library.value()->open_worker(devices);
  if (!worker) return worker.refusal();
  log_note(str("memory: UCX may use ", devices.empty() ? "every device" : devices));
  return std::make_unique<Ucx>(end, key, std::move(worker).value());
}

std::unique_ptr<Ucx> require_ucx(const LinkEnd& end, const JobKey& key, const std::string& host) {
  Result<std::unique_ptr<Ucx>> opened = open_ucx(end, key, host);
  TRIB_REQUIRE(opened, .what = "memory: an engine that is asked for does not open",
               .where = "pool.engines", .found = opened.refusal().reason, .expected = "ucx",
               .fix = "do what is said there, or take ucx out of the list");
  return std::move(opened).value();
}

}  // namespace tributary::memory
