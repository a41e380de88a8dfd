#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "memory/protocol/member.h"

namespace tributary::memory {

/// Where a member is in its life. A process number is free for a new incarnation only when its
/// member is gone: fenced, with every other member knowing it.
enum class MemberState { kJoining, kLive, kSuspect, kFenced, kGone };

struct MemberRecord {
  PeerIdentity identity;  // with its current epoch
  MemberState state = MemberState::kJoining;
  std::vector<SegmentRow> rows = {};
  TimePoint heard{};                          // its last heartbeat
  std::uint64_t step = 0;                     // finished steps, of a consumer
  std::uint64_t made = 0;                     // objects, of a producer
  std::uint32_t busy_ms = 0, blocked_ms = 0;  // likewise: for how long it made some, or had no room
  bool leaves = false;                        // likewise: it takes no more work
  [[nodiscard]] bool is_in() const {
    return state == MemberState::kJoining || state == MemberState::kLive ||
           state == MemberState::kSuspect;
  }
};

/// The controller's account of who is in the pool, under which epoch.
class MemberTable {
 public:
  /// `members` are there from the start, under the epochs that `table` names. A consumer that has
  /// never been heard is not silent: its process may start later.
  /// Producers from `first_lender` on may be silent as long as consumers.
  MemberTable(const Timers& timers, PageTable table, std::vector<PeerIdentity> members,
              TimePoint now, std::uint32_t first_lender);

  /// Whether a message of this sender counts; otherwise it is fenced, or not known.
  [[nodiscard]] bool is_current(const PeerIdentity& from) const;
  void take(const Heartbeat& heartbeat, std::uint16_t process, TimePoint now);
  /// Gives a process a new epoch, without rows: what it sends from now on is refused.
  EpochMessage fence(std::uint16_t process);
  /// Lets a new incarnation in.
  ///
  /// errors: Refusal when the number is taken, the incarnation not newer, or the rows break a rule
  Result<EpochMessage> join(const MemberJoined& event, TimePoint now);
  /// A consumer reads nothing more: it has finished all steps.
  void leave(std::uint16_t process);
  /// The fenced process is known to all members as such.
  void forget(std::uint16_t process);
  /// Members that were silent for longer than their role allows; marks others as suspect.
  [[nodiscard]] std::vector<std::uint16_t> silent(TimePoint now);
  /// What a process must know of another one: its current epoch and rows.
  [[nodiscard]] EpochMessage epoch_of(std::uint16_t process) const;

  [[nodiscard]] const std::map<std::uint16_t, MemberRecord>& members() const { return members_; }
  [[nodiscard]] const MemberRecord* find(std::uint16_t process) const;
  [[nodiscard]] const TableView& table() const { return table_; }
  /// Grows when a process joins or is fenced.
  [[nodiscard]] std::uint32_t newest_epoch() const { return newest_epoch_; }

 private:
  EpochMessage renew(std::uint16_t process, std::vector<SegmentRow> rows);

  Timers timers_;
  std::uint32_t first_lender_;
  TableView table_;
  std::uint32_t newest_epoch_ = 0;
  std::map<std::uint16_t, MemberRecord> members_;
};

}  // namespace tributary::memory
