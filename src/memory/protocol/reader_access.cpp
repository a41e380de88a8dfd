#include "memory/protocol/reader_access.h"

#include <algorithm>

namespace tributary::memory {
namespace {

// Leases of grants have numbers of their own: those of readers lie below.
constexpr std::uint64_t kGrantLease = std::uint64_t{1} << 63;
constexpr std::size_t kMaxEndedLeases = 1024;

}  // namespace

Status ReaderAccess::check(const PeerIdentity& peer, const GetRequest& request) const {
  if (peer.role == Role::kController) return Status::kBounds;
  if (request.epoch != objects_.epoch()) return Status::kEpoch;
  const SegmentPlace& place = objects_.place();
  const auto address = GlobalAddress::from_bits(request.gva);
  if (!address || address.value().tier() != place.tier ||
      address.value().process() != place.process || address.value().offset() < place.offset ||
      address.value().offset() - place.offset >= std::uint64_t{place.pages} * place.page_bytes)
    return Status::kBounds;
  const ObjectSlot* slot = objects_.find(request.gva);
  if (slot == nullptr || slot->handle.fields.generation != request.generation)
    return Status::kStale;
  const bool is_held = std::ranges::any_of(slot->leases, [&](const auto& lease) {
    return lease.first.process == peer.process && lease.first.epoch == peer.epoch;
  });
  if (slot->state == ObjectState::kRetired && !is_held) return Status::kStale;
  const std::uint64_t bytes = slot->handle.fields.bytes;
  if (request.length == 0 || request.offset > bytes || request.length > bytes - request.offset ||
      request.flags != 0)
    return Status::kBounds;
  const auto load = loads_.find(peer.process);
  const Load now = load == loads_.end() ? Load{} : load->second;
  if (request.length > limits_.request_bytes || now.requests >= limits_.peer_requests ||
      now.bytes + request.length > limits_.peer_bytes)
    return Status::kBusy;
  return Status::kOk;
}

SendObject ReaderAccess::answer(const PeerIdentity& peer, const GetRequest& request,
                                TimePoint now) {
  SendObject answer{.to = peer.process, .epoch = peer.epoch, .reply = {.request = request.request}};
  const Status status = check(peer, request);
  answer.reply.status = static_cast<std::uint32_t>(status);
  if (status != Status::kOk) return answer;
  const ObjectSlot& slot = *objects_.find(request.gva);
  answer.runs = slot.runs;
  answer.offset = request.offset;
  answer.length = request.length;
  answer.reply.payload_bytes = request.length;
  answer.reply.crc32c = slot.handle.fields.crc32c;
  answer.grant = next_grant_++;
  const LeaseHolder holder{
      .process = peer.process, .epoch = peer.epoch, .lease_id = kGrantLease | answer.grant};
  TRIB_CHECK(objects_.lease(holder, {request.gva, request.generation}, now) == Status::kOk,
             .what = "memory: a checked request got no lease");
  grants_[answer.grant] = {.holder = holder, .bytes = request.length};
  Load& load = loads_[peer.process];
  load.bytes += request.length;
  ++load.requests;
  return answer;
}

void ReaderAccess::end(std::uint64_t grant) {
  const auto node = grants_.extract(grant);
  if (node.empty()) return;
  const Grant& ended = node.mapped();
  objects_.unlease(ended.holder);
  Load& load = loads_.at(ended.holder.process);
  load.bytes -= ended.bytes;
  --load.requests;
}

Status ReaderAccess::lease(const PeerIdentity& peer, const LeaseMessage& message, TimePoint now) {
  if (peer.role == Role::kController || message.lease_id >= kGrantLease) return Status::kBounds;
  const EndedLeases& ended = ended_[{peer.process, peer.epoch}];
  if (message.lease_id < ended.floor || ended.ids.contains(message.lease_id)) return Status::kStale;
  const LeaseHolder holder{
      .process = peer.process, .epoch = peer.epoch, .lease_id = message.lease_id};
  for (const LeaseEntry& entry : message.entries) {
    const Status status = objects_.lease(holder, entry, now);
    if (status == Status::kOk) continue;
    unlease(peer, message.lease_id);
    return status;
  }
  return Status::kOk;
}

void ReaderAccess::unlease(const PeerIdentity& peer, std::uint64_t lease_id) {
  if (lease_id >= kGrantLease) return;
  objects_.unlease({.process = peer.process, .epoch = peer.epoch, .lease_id = lease_id});
  EndedLeases& ended = ended_[{peer.process, peer.epoch}];
  ended.ids.insert(lease_id);
  if (ended.ids.size() <= kMaxEndedLeases) return;
  ended.floor = *ended.ids.begin() + 1;
  ended.ids.erase(ended.ids.begin());
}

void ReaderAccess::drop(std::uint16_t process, std::uint32_t before_epoch) {
  objects_.drop_reader(process, before_epoch);
  std::erase_if(ended_, [&](const auto& reader) {
    return reader.first.first == process && reader.first.second < before_epoch;
  });
}

}  // namespace tributary::memory
