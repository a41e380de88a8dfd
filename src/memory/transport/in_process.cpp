#include "memory/transport/in_process.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file/crc32c.h"

namespace tributary::memory {

InProcess::InProcess(const PeerIdentity& self, ObjectServer* server, LocalMembers& members)
    : self_(self), server_(server), members_(members) {
  const bool is_new = members_.emplace(self.process, this).second;
  TRIB_CHECK(is_new, .what = "memory: two members of one process have the same number",
             .found = str("process ", self.process));
}

InProcess::~InProcess() {
  while (!links_.empty()) end(links_.begin()->first, Status::kPeerLost, "the member has ended");
  members_.erase(self_.process);
}

const TransportTraits& InProcess::traits() const {
  static const TransportTraits kTraits{.engine = Engine::kInProcess,
                                       .name = "in-process",
                                       .reach = Reach::kProcess,
                                       .needs_owner_progress = false,
                                       .bounds_checked_by_owner = true,
                                       .cancellable = true};
  return kTraits;
}

PeerLink InProcess::add_link(InProcess* peer) {
  const PeerLink link{++last_link_};
  links_[link].peer = peer;
  return link;
}

Result<PeerLink> InProcess::connect(const SegmentRow& row, TimePoint) {
  if (row.find_key(Engine::kInProcess) == nullptr)
    return Refusal{"key", str("memory: the row of process ", row.process,
                              " has no key of the engine in-process")};
  const auto found = members_.find(row.process);
  if (found == members_.end() || found->second->self_.incarnation != row.incarnation)
    return Refusal{"peer_lost", str("memory: process ", row.process, " in incarnation ",
                                    row.incarnation, " does not live in this process")};
  InProcess* peer = found->second;
  const PeerLink link = add_link(peer);
  const PeerLink at_peer = peer->add_link(this);
  links_[link].at_peer = at_peer;
  peer->links_[at_peer].at_peer = link;
  peer->events_.emplace_back(LinkOpened{.link = at_peer, .peer = self_});
  return link;
}

Result<TransferId> InProcess::post_get(PeerLink link, const ObjectHandle& handle,
                                       std::span<std::byte> into, TimePoint deadline) {
  check_buffer(into, handle);
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.drains)
    return Refusal{"peer_lost", "memory: link is closed"};
  const TransferId id{++last_transfer_};
  gets_.push_back({.id = id, .link = link, .handle = handle, .into = into, .deadline = deadline});
  return id;
}

Status InProcess::post_control(PeerLink link, FrameType type, std::span<const std::byte> body) {
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.drains) return Status::kPeerLost;
  InProcess& peer = *found->second.peer;
  if (peer.events_.size() >= kMaxEvents) return Status::kBusy;
  peer.events_.emplace_back(FrameReceived{.link = found->second.at_peer,
                                          .frame = {.header = header_of(type, self_.epoch, 0, body),
                                                    .body = {body.begin(), body.end()}}});
  return Status::kOk;
}

Status InProcess::copy(const Get& get) const {
  const auto link = links_.find(get.link);
  if (link == links_.end()) return Status::kBackend;
  ObjectServer* server = link->second.peer->server_;
  if (server == nullptr) return Status::kBounds;
  const WireHandle& handle = get.handle.fields;
  const Grant grant =
      server->grant(self_, whole_object(handle, static_cast<std::uint64_t>(get.id)));
  if (grant.status != Status::kOk) return grant.status;
  std::span<std::byte> left = get.into;
  for (const std::span<const std::byte> part : grant.parts) {
    TRIB_CHECK(part.size() <= left.size(), .what = "memory: an owner grants more than was asked",
               .found = str(part.size(), " bytes"), .expected = str(left.size(), " bytes"));
    std::memcpy(left.data(), part.data(), part.size());  // std::ranges::copy goes byte by byte
    left = left.subspan(part.size());
  }
  server->end_grant(grant.id);
  TRIB_CHECK(left.empty(), .what = "memory: an owner grants less than was asked",
             .found = str(left.size(), " bytes are missing"));
  const std::optional<std::uint32_t> checksum = checksum_of(handle);
  return checksum && crc32c(get.into) != *checksum ? Status::kCorrupt : Status::kOk;
}

void InProcess::finish(const Get& get, TimePoint now) {
  const Status status = now >= get.deadline ? Status::kTimeout : copy(get);
  events_.emplace_back(TransferDone{.transfer = get.id, .status = status});
  if (status == Status::kBounds)
    end(get.link, Status::kPeerLost, "memory: a request outside of its object or role");
}

std::size_t InProcess::poll(std::span<Completion> out, TimePoint now) {
  while (!gets_.empty() && events_.size() < out.size()) {
    const Get get = std::move(gets_.front());
    gets_.pop_front();
    finish(get, now);
  }
  std::vector<PeerLink> idle;
  for (const auto& [link, state] : links_)
    if (state.drains && std::ranges::find(gets_, link, &Get::link) == gets_.end())
      idle.push_back(link);
  for (const PeerLink link : idle) end(link, Status::kOk, "closed");
  return hand_over(events_, out);
}

void InProcess::close(PeerLink link, CloseMode mode) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  if (mode == CloseMode::kForce)
    end(link, Status::kBackend, "closed by force");
  else
    found->second.drains = true;
}

void InProcess::end(PeerLink link, Status status, const std::string& reason) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  const Link ended = found->second;
  end_here(link, status, reason);
  ended.peer->end_here(ended.at_peer, status, reason);
}

void InProcess::end_here(PeerLink link, Status status, const std::string& reason) {
  links_.erase(link);
  // A drained link has no GETs left on this side; its peer may have posted some.
  const Status ends_with = status == Status::kOk ? Status::kPeerLost : status;
  for (const Get& get : gets_)
    if (get.link == link)
      events_.emplace_back(TransferDone{.transfer = get.id, .status = ends_with});
  std::erase_if(gets_, [link](const Get& get) { return get.link == link; });
  events_.emplace_back(LinkClosed{.link = link, .status = status, .reason = reason});
}

TransportKey in_process_key() { return {.engine = Engine::kInProcess, .bytes = {}}; }

}  // namespace tributary::memory
