#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "memory/protocol/event.h"

namespace tributary::memory {

/// Messages that are sent again until they are acknowledged. A newer one about the same thing (the
/// process of an EPOCH, the step of an ASSIGN or PLAN, the key of a PUBLISH or RETRACT; otherwise
/// the type) replaces the older one. The time between two sendings doubles, so that a receiver that
/// is behind is not buried under copies.
class Outbox {
 public:
  explicit Outbox(Nanoseconds resend_after) : resend_after_(resend_after) {}

  void post(std::uint16_t to, Message message, TimePoint now, std::vector<Action>& actions);
  void acknowledge(std::uint16_t from, const AckMessage& ack);
  /// Sends again what has waited long enough.
  void resend(TimePoint now, std::vector<Action>& actions);
  /// Sends all that a process has not acknowledged again: what was on its way is lost.
  void resend_all(std::uint16_t to, TimePoint now, std::vector<Action>& actions);
  void drop_peer(std::uint16_t process);
  /// The objects are not needed any more: their PUBLISH and RETRACT are not sent again.
  void drop_objects(std::vector<Key> keys);
  /// Whether an EPOCH of this process waits for an acknowledgement.
  [[nodiscard]] bool has_epoch_of(std::uint16_t process) const;

 private:
  using Place = std::tuple<std::uint16_t, FrameType, std::uint64_t, Key>;  // to, type, number, key
  struct Entry {
    Message message;
    TimePoint due;     // to be sent again
    Nanoseconds wait;  // until then, since it was sent
  };
  static constexpr std::int64_t kMaxWait = 8;  // times resend_after

  static Place place_of(std::uint16_t to, const Message& message);
  /// The first entry of a process, or of one with a higher number.
  static auto first_of(auto& entries, int to) {
    return entries.lower_bound(Place{static_cast<std::uint16_t>(to), FrameType{}, 0, Key{}});
  }
  void drop(const std::function<bool(const Place&)>& is_dropped);
  static Place acknowledgement_of(std::uint16_t to, const AckMessage& ack);

  Nanoseconds resend_after_;
  std::map<Place, Entry> entries_;
  std::map<Place, Place> by_acknowledgement_;
  std::set<std::pair<TimePoint, Place>> by_time_;  // when each entry is due
};

}  // namespace tributary::memory
