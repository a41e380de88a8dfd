#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "memory/admit/credit_ledger.h"
#include "memory/admit/look_ahead_guard.h"
#include "memory/protocol/assigned_objects.h"
#include "memory/protocol/member.h"
#include "memory/protocol/object_requests.h"
#include "memory/protocol/reader_access.h"

namespace tributary::memory {

struct OwnerConfig {
  MemberIdentity identity = {};
  Timers timers = {};
  SegmentPlace place = {};
  std::uint32_t reserve_pages = 0;    // pages of the largest object
  std::uint64_t first_step = 0;       // the oldest uncommitted one, when the job starts
  std::uint64_t window = 2;           // steps from the oldest uncommitted one that may be made
  std::uint32_t encoders = 1;         // objects that are written at a time
  std::uint32_t encode_attempts = 3;  // before an object counts as one that cannot be made
  ReadLimits limits = {};
};

/// A producer: makes the objects that it is assigned, in its own segment, and lets readers have
/// them. What it needs for that of other producers it reads.
class OwnerCore {
 public:
  /// owns: borrows `generations`, one for each page
  OwnerCore(const OwnerConfig& config, PageTable table, Generations generations);

  [[nodiscard]] std::vector<Action> step(const Event& event, TimePoint now);

  [[nodiscard]] const ObjectTable& objects() const { return *objects_; }
  [[nodiscard]] const CreditLedger& credits() const { return credits_; }
  [[nodiscard]] const Member& member() const { return member_; }
  [[nodiscard]] const ReaderAccess& access() const { return *access_; }
  /// The oldest step that is not committed, as far as this owner knows.
  [[nodiscard]] std::uint64_t low() const { return low_; }
  /// Whether an assigned object waits while an encoder is idle: pages or credits are missing.
  [[nodiscard]] bool is_blocked() const { return is_blocked_; }
  /// Whether it was asked to leave, and nothing that it was assigned is still needed.
  [[nodiscard]] bool has_left() const;
  /// For its heartbeats: how long this owner has made objects, and was blocked, in all.
  void tell_times(std::uint32_t busy_ms, std::uint32_t blocked_ms) {
    member_.busy_ms = busy_ms;
    member_.blocked_ms = blocked_ms;
  }
  /// Pages by step, from low() on; those of a cancelled object count as free.
  [[nodiscard]] std::vector<StepPages> pages_by_step() const;

 private:
  void take(const MessageReceived& event, TimePoint now);
  void take(const EpochMessage& message);
  void take(const MessageReceived& event, const AssignMessage& message);
  void take(const MessageReceived& event, const Credit& credit);
  void take(const CommitMessage& message);
  void take(const Encoded& event, TimePoint now);
  void take(const EncodeFailed& event, TimePoint now);
  /// Starts to make what may be made.
  void admit();
  [[nodiscard]] bool start(const AssignedObject& object, std::uint64_t step,
                           std::span<const StepPages> pages);
  /// An Encode ended without its object: frees the pages.
  void abort(SlotId id);
  void cancel(SlotId id);
  /// The object is not here, or not any more, and has to be made.
  void reopen(const Key& key, std::uint64_t step);
  /// Takes pages back from objects of the newest steps while older ones could not be placed.
  void free_excess(TimePoint now);
  void revoke(SlotId id, TimePoint now);
  void begin_epoch();

  OwnerConfig config_;
  Member member_;
  Generations generations_;
  std::unique_ptr<ObjectTable> objects_;  // replaced when the epoch begins
  std::unique_ptr<ReaderAccess> access_;
  ObjectRequests requests_;
  CreditLedger credits_;
  std::uint64_t low_;
  std::map<std::uint64_t, AssignedObjects> assigned_;  // by step
  std::map<Key, SlotId> made_;                         // reserved, being written, or sealed
  std::map<Key, std::uint32_t> failures_;
  std::set<SlotId> cancelled_;                              // whose Encode has not ended yet
  std::map<std::uint64_t, std::uint64_t> cancelled_pages_;  // of them, by step
  std::uint32_t writing_ = 0;
  bool is_blocked_ = false;
  bool pages_changed_ = false;  // so that something may be started, or must be revoked
  std::vector<Action> actions_;
};

}  // namespace tributary::memory
