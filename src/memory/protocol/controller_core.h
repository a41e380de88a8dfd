#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memory/protocol/member_table.h"
#include "memory/protocol/object_book.h"
#include "memory/protocol/outbox.h"

namespace tributary::memory {

struct ControllerConfig {
  std::uint16_t process = 0;
  Timers timers;
  std::vector<PeerIdentity> members = {};     // there from the start; consumers may connect later
  std::vector<std::uint16_t> consumers = {};  // processes by dp rank
  std::uint64_t reserve_pages = 0;            // pages of the largest object
  std::uint64_t window = 2;                   // steps that may be made at a time
  std::uint64_t first_step = 0;
  std::uint32_t first_lender = UINT32_MAX;  // the lowest process that makes only what names it
};

/// The single writer of plan, watermark, credits and membership.
///
/// Deterministic mode: plans come from outside, as functions of the data. Objects stay until
/// their step is committed.
class ControllerCore {
 public:
  ControllerCore(const ControllerConfig& config, PageTable table, TimePoint now);

  [[nodiscard]] std::vector<Action> step(const Event& event, TimePoint now);

  /// The oldest step that is not committed.
  [[nodiscard]] std::uint64_t low() const { return low_; }
  [[nodiscard]] const MemberTable& membership() const { return membership_; }
  [[nodiscard]] const ObjectBook& objects() const { return book_; }
  /// Messages that were refused: of a fenced member, or against the rules.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  /// Steps that are planned, the committed ones too.
  [[nodiscard]] std::uint64_t planned_end() const { return planned_end_; }

 private:
  /// A producer that lends nothing: others can do its work. All others end the pool.
  [[nodiscard]] bool is_replaceable(const PeerIdentity& member) const;
  void take(const MessageReceived& event, TimePoint now);
  void take(const MessageReceived& event, const Heartbeat& heartbeat, TimePoint now);
  void take(const MessageReceived& event, const PublishMessage& publish, TimePoint now);
  void take(const MessageReceived& event, const RetractMessage& retract);
  void take(const MessageReceived& event, const ResolveMessage& resolve);
  void take(const FailMessage& fail, TimePoint now);
  void take(const StepPlanned& event);
  void take(const PlanLogged& event, TimePoint now);
  void take(const MemberJoined& event, TimePoint now);
  /// Another process may ask for the number of a member that is well.
  void take(const MemberLost& event, TimePoint now);
  /// A producer is lost as any other; a consumer reads nothing more, and no step waits for it.
  void take_bye(const PeerIdentity& from, TimePoint now);
  void tick(TimePoint now);

  /// A producer is fenced and its objects go to others; any other member ends the job.
  void lose(std::uint16_t process, const std::string& why, TimePoint now);
  void assign_open_steps(TimePoint now);
  void grant(std::uint16_t owner, std::uint64_t pages, TimePoint now);
  void tell_members(const EpochMessage& message, TimePoint now);
  void commit_finished_steps(TimePoint now);
  void send_handle(ObjectRecord& record, TimePoint now);
  void stop();

  ControllerConfig config_;
  MemberTable membership_;
  Outbox outbox_;
  ObjectBook book_;
  std::set<std::uint64_t> logged_;  // steps with a plan, uncommitted
  std::map<std::uint64_t, StepPlanned> unlogged_;
  std::map<std::uint16_t, Credit> granted_;
  std::uint64_t low_, planned_end_;
  std::uint64_t versions_ = 0, sequences_ = 0, refused_ = 0;
  std::optional<TimePoint> failed_;
  std::optional<FailMessage> root_cause_;
  bool stopped_ = false;
  std::vector<Action> actions_;
};

}  // namespace tributary::memory
