#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "memory/protocol/member.h"

namespace tributary::memory {

struct ReaderConfig {
  MemberIdentity identity = {};
  Timers timers = {};
  std::uint32_t dp_rank = 0;  // whose microbatches this process takes
  std::uint64_t first_step = 0;
  std::uint64_t ahead = 1;     // steps after the current one that are gathered already
  std::uint32_t gets = 4;      // under way at a time
  std::uint32_t attempts = 3;  // of one handle, before its owner is reported
  Nanoseconds retry_after{20'000'000};
};

/// A consumer: gathers the objects of its microbatches, in the order of the plan.
class ReaderCore {
 public:
  ReaderCore(const ReaderConfig& config, PageTable table);

  [[nodiscard]] std::vector<Action> step(const Event& event, TimePoint now);

  [[nodiscard]] const Member& member() const { return member_; }
  /// Steps that are finished: the number of the current one.
  [[nodiscard]] std::uint64_t current_step() const { return current_; }
  /// Whether an object is of an unfinished step that is planned.
  [[nodiscard]] bool wants(const Key& key) const { return wanted_.contains(key); }
  /// Whether an object of an unfinished step is here; one without bytes cannot be made.
  [[nodiscard]] bool has_gathered(const Key& key) const {
    const auto found = wanted_.find(key);
    return found != wanted_.end() && found->second.is_gathered;
  }

 private:
  /// Where an object stands among those of this reader: its step, and its place in the plan.
  using Place = std::pair<std::uint64_t, std::uint64_t>;
  struct Wanted {
    Place place;
    std::optional<PublishMessage> published;
    std::uint64_t request = 0;    // 0: none under way
    std::uint64_t requested = 0;  // the sequence of its handle
    bool is_gathered = false;
    std::uint32_t failures = 0;  // with this handle
    TimePoint not_before{};
    TimePoint asked{};  // for a later handle
  };

  void take(const MessageReceived& event, TimePoint now);
  void take(const MessageReceived& event, const PlanMessage& plan);
  void take(const MessageReceived& event, const PublishMessage& publish);
  void take(const GetDone& event, TimePoint now);
  void take(const StepFinished& event, TimePoint now);
  void ask_for_later_handles(TimePoint now);
  /// Tries an object again, in a while.
  void rest(const Key& key, Wanted& wanted, TimePoint now);
  void start_gets(TimePoint now);
  void deliver();
  void report_owner(const WireHandle& handle, Status status);

  ReaderConfig config_;
  Member member_;
  std::uint64_t current_;
  std::uint64_t next_request_ = 1;
  std::map<std::uint64_t, std::vector<PlannedMicrobatch>> plans_;  // own microbatches by step
  std::map<Key, Wanted> wanted_;
  std::map<std::uint64_t, Key> gets_;
  // A published object is in one of these unless it is here or on its way.
  std::map<Place, Key> ready_;                   // to be read, in this order
  std::map<Place, Key> unbound_;                 // not in the table as it is known here
  std::map<Place, Key> stale_;                   // a later handle is asked for
  std::set<std::pair<TimePoint, Key>> resting_;  // to be read again, from then on
  struct Delivery {
    std::uint64_t step = 0;
    std::size_t microbatch = 0, key = 0;  // keys before it are gathered
  };
  Delivery next_delivery_;
  std::vector<Action> actions_;
};

}  // namespace tributary::memory
