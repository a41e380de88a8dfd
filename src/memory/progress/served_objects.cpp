#include "memory/progress/served_objects.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "memory/progress/progress_thread.h"

namespace tributary::memory {

Grant ServedObjects::grant(const PeerIdentity& peer, const GetRequest& request) {
  Grant given{.status = Status::kEpoch};  // of a core that has ended
  for (Action& action : core_.step(MessageReceived{peer, request}, steady_now())) {
    const auto* answer = std::get_if<SendObject>(&action);
    if (answer == nullptr) {
      actions_.push_back(std::move(action));
      continue;
    }
    given = {.id = answer->grant,
             .status = static_cast<Status>(answer->reply.status),
             .crc32c = answer->reply.crc32c};
    std::uint64_t skipped = answer->offset, left = answer->length;
    for (const std::span<std::byte> part : memory_.pages_of(answer->runs)) {
      const std::uint64_t begin = std::min<std::uint64_t>(skipped, part.size());
      const std::uint64_t count = std::min<std::uint64_t>(left, part.size() - begin);
      if (count > 0) given.parts.push_back(part.subspan(begin, count));
      skipped -= begin;
      left -= count;
    }
  }
  return given;
}

void ServedObjects::end_grant(std::uint64_t grant_id) {
  for (Action& action : core_.step(GrantEnded{grant_id}, steady_now()))
    actions_.push_back(std::move(action));
}

Status ServedObjects::lease(const PeerIdentity& peer, std::uint64_t lease_id,
                            std::span<const LeaseEntry> entries) {
  const LeaseMessage message{.lease_id = lease_id, .entries = {entries.begin(), entries.end()}};
  Status status = Status::kEpoch;  // of a core that has ended, or a reader that is fenced
  for (Action& action : core_.step(MessageReceived{peer, message}, steady_now())) {
    const auto* send = std::get_if<Send>(&action);
    const auto* ack = send == nullptr ? nullptr : std::get_if<AckMessage>(&send->message);
    if (ack != nullptr && ack->type == FrameType::kLease)
      status = ack->status;  // the engine sends it
    else
      actions_.push_back(std::move(action));
  }
  return status;
}

void ServedObjects::unlease(const PeerIdentity& peer, std::uint64_t lease_id) {
  for (Action& action : core_.step(MessageReceived{peer, UnleaseMessage{lease_id}}, steady_now()))
    if (const auto* send = std::get_if<Send>(&action);
        send == nullptr || send->to != peer.process)  // nobody waits for the acknowledgement
      actions_.push_back(std::move(action));
}

}  // namespace tributary::memory
