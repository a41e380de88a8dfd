#pragma once

#include <cstdint>
#include <vector>

#include "memory/protocol/event.h"
#include "memory/protocol/outbox.h"
#include "memory/protocol/table_view.h"

namespace tributary::memory {

/// Periods and deadlines of the protocol.
struct Timers {
  Nanoseconds heartbeat{1'000'000'000};
  Nanoseconds fence{3'000'000'000};           // a producer that is silent so long is fenced
  Nanoseconds lost{5'000'000'000};            // a consumer or the controller is lost
  Nanoseconds resend{200'000'000};            // messages without an acknowledgement
  Nanoseconds collect_failures{200'000'000};  // before one is chosen as the root cause
};

/// A process of the pool: its place in the job.
struct MemberIdentity {
  std::uint16_t process = 0, controller = 0;
  std::uint32_t incarnation = 0;
  std::uint32_t epoch = 0;  // 0: it joins, and learns its epoch from an EPOCH with its incarnation
};

/// What owners and readers have in common: heartbeats, their own epoch, the table,
/// acknowledgements.
class Member {
 public:
  Member(const MemberIdentity& identity, const Timers& timers, PageTable table);

  /// Handles EPOCH, ACK, FAIL, and messages of members with an old epoch; true when nothing is left
  /// to do with the message.
  [[nodiscard]] bool take(const MessageReceived& event, TimePoint now,
                          std::vector<Action>& actions);
  /// Sends a heartbeat and what was not acknowledged; stops when the controller is silent.
  void tick(TimePoint now, std::vector<Action>& actions);
  /// Tells a controller over a new link that this process is there, and what was not acknowledged.
  void renew_link(TimePoint now, std::vector<Action>& actions);
  /// Says at once that this process is there.
  void send_heartbeat(TimePoint now, std::vector<Action>& actions);
  /// Ends this process. Nothing else is asked for afterwards.
  void stop(ExitCode code, std::string reason, std::vector<Action>& actions);

  [[nodiscard]] const MemberIdentity& identity() const { return identity_; }
  [[nodiscard]] const TableView& table() const { return table_; }
  [[nodiscard]] Outbox& outbox() { return outbox_; }
  [[nodiscard]] bool is_stopped() const { return stopped_; }
  /// Messages that were refused because their sender's epoch was old.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

  std::uint64_t step = 0;                     // for heartbeats: finished steps
  std::uint64_t progress = 0;                 // for heartbeats: changes while something goes on
  std::uint32_t busy_ms = 0, blocked_ms = 0;  // for heartbeats, of a producer
  bool leaves = false;                        // likewise: it takes no more work

 private:
  void take_epoch(const EpochMessage& message, std::vector<Action>& actions);

  MemberIdentity identity_;
  Timers timers_;
  TableView table_;
  Outbox outbox_;
  TimePoint last_heartbeat_{};
  TimePoint heard_controller_{};
  bool has_started_ = false, stopped_ = false;
  std::uint64_t refused_ = 0;
};

/// Acknowledges a message to its sender.
void acknowledge(const MessageReceived& event, std::vector<Action>& actions);

}  // namespace tributary::memory
