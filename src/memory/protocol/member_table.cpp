#include "memory/protocol/member_table.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tributary::memory {

MemberTable::MemberTable(const Timers& timers, PageTable table, std::vector<PeerIdentity> members,
                         TimePoint now, std::uint32_t first_lender)
    : timers_(timers), first_lender_(first_lender), table_(std::move(table)) {
  for (const PeerIdentity& identity : members) {
    MemberRecord& record = members_[identity.process];
    const bool is_consumer = identity.role == Role::kConsumer;
    record = {.identity = identity,
              .state = is_consumer ? MemberState::kJoining : MemberState::kLive,
              .heard = now};
    for (const SegmentRow& row : table_.table().rows())
      if (row.process == identity.process) record.rows.push_back(row);
    newest_epoch_ = std::max(newest_epoch_, identity.epoch);
  }
}

const MemberRecord* MemberTable::find(std::uint16_t process) const {
  const auto found = members_.find(process);
  return found == members_.end() ? nullptr : &found->second;
}

bool MemberTable::is_current(const PeerIdentity& from) const {
  const MemberRecord* member = find(from.process);
  return member != nullptr && member->is_in() && member->identity.epoch == from.epoch &&
         member->identity.incarnation == from.incarnation;
}

void MemberTable::take(const Heartbeat& heartbeat, std::uint16_t process, TimePoint now) {
  MemberRecord& member = members_.at(process);
  member.state = MemberState::kLive;
  member.heard = now;
  member.step = std::max(member.step, heartbeat.step);
  if (member.identity.role != Role::kProducer) return;
  member.made = std::max(member.made, heartbeat.progress);
  member.busy_ms = std::max(member.busy_ms, heartbeat.busy_ms);
  member.blocked_ms = std::max(member.blocked_ms, heartbeat.blocked_ms);
  member.leaves |= heartbeat.leaves != 0;
}

EpochMessage MemberTable::renew(std::uint16_t process, std::vector<SegmentRow> rows) {
  MemberRecord& member = members_.at(process);
  member.identity.epoch = ++newest_epoch_;
  for (SegmentRow& row : rows) row.epoch = newest_epoch_;
  member.rows = std::move(rows);
  const Result<bool> applied =
      table_.apply({.process = process, .epoch = newest_epoch_, .rows = member.rows, .digest = {}});
  TRIB_CHECK(applied.has_value(), .what = "memory: checked rows were refused",
             .found = applied ? std::string() : applied.refusal().reason);
  return epoch_of(process);
}

EpochMessage MemberTable::epoch_of(std::uint16_t process) const {
  const MemberRecord& member = members_.at(process);
  return {.process = process,
          .epoch = member.identity.epoch,
          .rows = member.rows,
          .digest = table_.digest()};
}

EpochMessage MemberTable::fence(std::uint16_t process) {
  members_.at(process).state = MemberState::kFenced;
  return renew(process, {});
}

void MemberTable::leave(std::uint16_t process) {
  members_.at(process).state = MemberState::kGone;
  members_.at(process).step = std::numeric_limits<std::uint64_t>::max();
}

void MemberTable::forget(std::uint16_t process) { members_.at(process).state = MemberState::kGone; }

Result<EpochMessage> MemberTable::join(const MemberJoined& event, TimePoint now) {
  const PeerIdentity& identity = event.identity;
  const auto known = members_.find(identity.process);
  if (known != members_.end()) {
    if (known->second.state != MemberState::kGone)
      return Refusal{"taken", str("memory: process ", identity.process, " has not gone yet")};
    if (identity.incarnation <= known->second.identity.incarnation)
      return Refusal{"old",
                     str("memory: process ", identity.process, " joins as incarnation ",
                         identity.incarnation, ", after ", known->second.identity.incarnation)};
  }
  for (const SegmentRow& row : event.rows)
    if (row.incarnation != identity.incarnation)
      return Refusal{"rows", str("memory: process ", identity.process, " joins as incarnation ",
                                 identity.incarnation, " with memory of ", row.incarnation)};
  const Result<PageTable> table = table_.table().with_rows_of(identity.process, event.rows);
  if (!table) return table.refusal();
  members_[identity.process] = {.identity = identity, .heard = now};
  return renew(identity.process, event.rows);
}

std::vector<std::uint16_t> MemberTable::silent(TimePoint now) {
  std::vector<std::uint16_t> lost;
  for (auto& [process, member] : members_) {
    const bool is_awaited =
        member.identity.role == Role::kConsumer && member.state == MemberState::kJoining;
    if (!member.is_in() || is_awaited) continue;
    const Nanoseconds silence = now - member.heard;
    const bool is_producer = member.identity.role == Role::kProducer && process < first_lender_;
    if (silence > (is_producer ? timers_.fence : timers_.lost))
      lost.push_back(process);
    else if (silence > timers_.heartbeat * 2 && member.state == MemberState::kLive)
      member.state = MemberState::kSuspect;
  }
  return lost;
}

}  // namespace tributary::memory
