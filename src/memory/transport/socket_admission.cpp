// How SocketLinks lets a peer in: limits for strangers, the handshake, and who may come twice.

#include <algorithm>
#include <cerrno>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include "core/text.h"
#include "memory/transport/socket/address_text.h"
#include "memory/transport/socket/unix_socket.h"
#include "memory/transport/socket_connection.h"
#include "memory/wire/messages.h"

namespace tributary::memory {
namespace {

// A pair of processes may have one connection for control messages and one for data.
constexpr std::ptrdiff_t kConnectionsOfOnePeer = 2;
constexpr int kAcceptedAtOnce = 64;

/// Checks who runs the process at the other end of a unix socket, as the kernel knows it.
std::optional<Refusal> check_user(int socket) {
  const Result<uid_t> user = user_at_other_end(socket);
  if (!user) return user.refusal();
  if (user.value() == geteuid()) return std::nullopt;
  return Refusal{"user", str("memory: peer is run by another user: user ", user.value(),
                             ", expected ", geteuid())};
}

}  // namespace

std::optional<Refusal> SocketLinks::check_stranger(int socket) const {
  const auto half_open =
      static_cast<std::size_t>(std::ranges::count_if(connections_, [](const auto& each) {
        return !each.second->client && each.second->stage == Stage::kHandshake;
      }));
  if (half_open >= end_.limits.half_open)
    return Refusal{"half_open", str("memory: too many peers have not finished the handshake: ",
                                    half_open, ", limit ", end_.limits.half_open)};
  const std::size_t max = end_.limits.per_rank * end_.self.world;
  if (connections_.size() >= max)
    return Refusal{"connections",
                   str("memory: too many connections: ", connections_.size(), ", limit ", max)};
  return is_unix_socket(socket) ? check_user(socket) : std::nullopt;
}

/// Takes one waiting connection and drops it: a process without free descriptors would otherwise be
/// woken for it for ever.
void SocketLinks::drop_one(int listening) {
  spare_.reset();
  { const Descriptor dropped(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)); }
  spare_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  refusals_.add({"descriptors", "memory: no descriptor is left for a peer"}, "unknown", now_);
}

void SocketLinks::accept_all(int listening) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Descriptor socket(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE)) return drop_one(listening);
    if (!socket) return;
    std::string where = address_text(socket.get());
    if (const auto fault = check_stranger(socket.get())) {
      refusals_.add(*fault, where, now_);
      continue;
    }
    Connection& at = add(std::move(socket), std::move(where));
    at.deadline = now_ + end_.limits.handshake;
  }
}

void SocketLinks::greet(Connection& at) {
  if (is_unix_socket(at.socket.descriptor())) {
    if (const auto fault = check_user(at.socket.descriptor())) return refuse(at, *fault);
    at.socket.accept_descriptors();
  }
  at.stage = Stage::kHandshake;
  at.socket.queue(
      {.frame = frame_bytes(FrameType::kHello, end_.epoch, 0, body_of(at.client->hello()))});
}

std::optional<Refusal> SocketLinks::take_handshake(Connection& at, const Frame& frame) {
  const FrameType expected = at.client   ? FrameType::kChallenge
                             : at.server ? FrameType::kConfirm
                                         : FrameType::kHello;
  if (frame.type() != expected)
    return Refusal{"handshake", str("memory: peer does not keep to the handshake: type ",
                                    name_of(frame.type()), ", expected ", name_of(expected))};
  const Result<Message> message = parse_message(frame.type(), frame.body);
  if (!message) return message.refusal();
  if (const auto* hello = std::get_if<Hello>(&message.value())) return take_hello(at, *hello);
  if (const auto* challenge = std::get_if<Challenge>(&message.value()))
    return take_challenge(at, *challenge);
  return take_confirm(at, std::get<Confirm>(message.value()));
}

std::optional<Refusal> SocketLinks::take_hello(Connection& at, const Hello& hello) {
  at.server.emplace(end_.self, key_, draw_nonce());
  const Result<Challenge> challenge = at.server->challenge(hello);
  if (!challenge) return challenge.refusal();
  at.socket.queue(
      {.frame = frame_bytes(FrameType::kChallenge, end_.epoch, 0, body_of(challenge.value()))});
  return std::nullopt;
}

std::optional<Refusal> SocketLinks::take_challenge(Connection& at, const Challenge& challenge) {
  const Result<Confirm> confirm = at.client->answer(challenge);
  if (!confirm) return confirm.refusal();
  const Hello& server = challenge.server;
  if (server.process != at.expected_process || server.incarnation != at.expected_incarnation)
    return Refusal{"peer", str("memory: another process answers: process ", server.process,
                               ", incarnation ", server.incarnation, ", expected ",
                               at.expected_process, ", ", at.expected_incarnation)};
  at.socket.queue(
      {.frame = frame_bytes(FrameType::kConfirm, end_.epoch, 0, body_of(confirm.value()))});
  open(at, server);
  return std::nullopt;
}

std::optional<Refusal> SocketLinks::take_confirm(Connection& at, const Confirm& confirm) {
  if (auto fault = at.server->check(confirm)) return fault;
  const Hello client = at.server->client();
  if (auto fault = check_newcomer(client)) return fault;
  incarnations_[client.rank] = client.incarnation;
  open(at, client);
  events_.emplace_back(LinkOpened{at.link, at.peer, client.resumes != 0});
  return std::nullopt;
}

/// Compares a peer that holds the key with the peers that are or were connected.
std::optional<Refusal> SocketLinks::check_newcomer(const Hello& hello) const {
  const auto newest = incarnations_.find(hello.rank);
  if (newest != incarnations_.end() && hello.incarnation < newest->second)
    return Refusal{"incarnation", str("memory: peer is an old incarnation of rank ", hello.rank,
                                      ": ", hello.incarnation, ", newest ", newest->second)};
  const auto same = std::ranges::count_if(connections_, [&](const auto& each) {
    const Connection& other = *each.second;
    return other.stage == Stage::kOpen && !other.client && other.peer.rank == hello.rank &&
           other.peer.incarnation == hello.incarnation;
  });
  if (same < kConnectionsOfOnePeer) return std::nullopt;
  return Refusal{"duplicate", str("memory: peer is connected already: rank ", hello.rank,
                                  ", incarnation ", hello.incarnation)};
}

void SocketLinks::open(Connection& at, const Hello& peer) {
  at.stage = Stage::kOpen;
  at.peer.rank = peer.rank;
  at.peer.role = static_cast<Role>(peer.role);
  at.peer.process = peer.process;
  at.peer.incarnation = peer.incarnation;
  for (OutgoingFrame& frame : at.held) at.socket.queue(std::move(frame));
  at.held.clear();
}

}  // namespace tributary::memory
