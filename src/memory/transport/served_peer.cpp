#include "memory/transport/served_peer.h"

#include <utility>
#include <variant>

#include "core/text.h"

namespace tributary::memory {

constexpr std::size_t kMaxLeases = 4096;  // of one connection

std::optional<Refusal> ServedPeer::answer(const PeerIdentity& peer, const Frame& frame,
                                          std::uint32_t epoch, FrameSocket& to) {
  if (server_ == nullptr || peer.role == Role::kController)
    return Refusal{"role", str("memory: peer may not read here: rank ", peer.rank, ", type ",
                               name_of(frame.type()))};
  const Result<Message> message = parse_message(frame.type(), frame.body);
  if (!message) return message.refusal();
  if (const auto* get = std::get_if<GetRequest>(&message.value()))
    return answer_get(peer, *get, epoch, to);
  if (const auto* lease = std::get_if<LeaseMessage>(&message.value()))
    return answer_lease(peer, *lease, epoch, to);
  const std::uint64_t lease_id = std::get<UnleaseMessage>(message.value()).lease_id;
  if (leases_.erase(lease_id) > 0) server_->unlease(peer, lease_id);
  return std::nullopt;
}

std::optional<Refusal> ServedPeer::answer_get(const PeerIdentity& peer, const GetRequest& request,
                                              std::uint32_t epoch, FrameSocket& to) {
  Grant grant = server_->grant(peer, request);
  const bool given = grant.status == Status::kOk;
  const GetReply reply{.request = request.request,
                       .payload_bytes = given ? request.length : 0,
                       .status = static_cast<std::uint32_t>(grant.status),
                       .crc32c = grant.crc32c};
  to.queue({.frame = frame_bytes(FrameType::kGetReply, epoch, request.request, body_of(reply)),
            .parts = std::move(grant.parts),
            .grant = grant.id});
  if (grant.status != Status::kBounds) return std::nullopt;
  return Refusal{"bounds", str("memory: request outside the object: rank ", peer.rank, ", gva = 0x",
                               std::hex, request.gva, std::dec, ", offset = ", request.offset,
                               ", length = ", request.length)};
}

std::optional<Refusal> ServedPeer::answer_lease(const PeerIdentity& peer, const LeaseMessage& lease,
                                                std::uint32_t epoch, FrameSocket& to) {
  const Status status = leases_.size() < kMaxLeases
                            ? server_->lease(peer, lease.lease_id, lease.entries)
                            : Status::kBusy;
  if (status == Status::kOk) leases_.emplace(lease.lease_id, peer);
  const AckMessage ack{
      .type = FrameType::kLease, .status = status, .sequence = lease.lease_id, .key = {}};
  to.queue({.frame = frame_bytes(FrameType::kAck, epoch, 0, body_of(ack))});
  if (status != Status::kBounds) return std::nullopt;
  return Refusal{"bounds", str("memory: lease outside the segment: rank ", peer.rank,
                               ", entries = ", lease.entries.size())};
}

void ServedPeer::end_grants(const std::vector<std::uint64_t>& grants) {
  for (const std::uint64_t grant : grants) server_->end_grant(grant);
}

void ServedPeer::end_all(FrameSocket& to) {
  std::vector<std::uint64_t> grants;
  to.drop_unsent(grants);
  end_grants(grants);
  for (const auto& [lease_id, peer] : std::exchange(leases_, {})) server_->unlease(peer, lease_id);
}

}  // namespace tributary::memory
