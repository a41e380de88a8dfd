#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "memory/protocol/member.h"

namespace tributary::memory {

/// The objects of other owners that an owner needs itself: asks the controller where they are until
/// it knows, and reads them. After a read that fails it asks again, in a while.
class ObjectRequests {
 public:
  ObjectRequests(std::uint16_t controller, Nanoseconds resend)
      : controller_(controller), resend_(resend) {}

  void ask(const ObjectAsked& event) { wanted_.try_emplace(event.key, Wanted{.step = event.step}); }
  void take(const PublishMessage& message);
  /// Returns whether an object has come.
  bool take(const GetDone& event, TimePoint now);
  /// Asks for what is missing, and starts to read what is there.
  void advance(TimePoint now, const TableView& table, std::vector<Action>& actions);
  /// Earlier steps are over: nobody needs their objects any more.
  void forget_before(std::uint64_t step);

 private:
  struct Wanted {
    std::uint64_t step = 0;
    std::optional<TimePoint> asked = {};
    std::optional<ObjectHandle> handle = {};  // not tried yet, or being read
    std::uint64_t request = 0;                // of the read under way; 0: none
  };

  std::uint16_t controller_;
  Nanoseconds resend_;
  std::map<Key, Wanted> wanted_;
  std::uint64_t requests_ = 0;
};

}  // namespace tributary::memory
