#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"

namespace tributary::simulate {

enum class EventKind : std::uint8_t {
  kArrival,
  kFlowBegin,
  kFlowEnd,
  kReductionEnd,
  kPassEnd,
  kVacancy,  // the pool has room for the message
  kBegin,    // the lane is free
};

/// Events of one instant are ordered by kind, then by number; one key holds both.
class Event {
 public:
  Event(Nanoseconds time, EventKind kind, int of)
      : time_(time),
        key_((static_cast<std::uint64_t>(kind) << 32) | static_cast<std::uint32_t>(of)) {}

  [[nodiscard]] Nanoseconds time() const { return time_; }
  [[nodiscard]] EventKind kind() const { return static_cast<EventKind>(key_ >> 32); }
  /// The number of a message, reduction or lane; in SharedWays of the slot of a message.
  [[nodiscard]] int of() const { return static_cast<int>(key_ & 0xffffffffU); }
  bool operator<(const Event& other) const {
    return time_ != other.time_ ? time_ < other.time_ : key_ < other.key_;
  }

 private:
  Nanoseconds time_;
  std::uint64_t key_;
};

/// Future events, the next one first. Each lane, message (or its slot) and reduction has at most
/// one event, which may move.
///
/// cost: O(log(future events)) for each operation
class EventQueue {
 public:
  EventQueue(int lanes, std::size_t messages, std::size_t reductions)
      : first_of_kind_{lanes, lanes, lanes, lanes + static_cast<int>(messages), 0, lanes, 0},
        place_(static_cast<std::size_t>(lanes) + messages + reductions, -1) {}

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] const Event& next() const { return heap_.front(); }
  /// Adds an event, or replaces the one that this lane, message or reduction has.
  void set(const Event& event) {
    int& place = place_of(event);
    if (place < 0) {
      place = static_cast<int>(heap_.size());
      heap_.push_back(event);
      rise(place, event);
    } else if (event < heap_[place]) {
      rise(place, event);
    } else {
      sink(place, event);
    }
  }
  Event take() {
    const Event first = heap_.front();
    place_of(first) = -1;
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
    return first;
  }

 private:
  int& place_of(const Event& event) {
    return place_[first_of_kind_[static_cast<int>(event.kind())] + event.of()];
  }
  void put(int place, const Event& event) {
    heap_[place] = event;
    place_of(event) = place;
  }
  void rise(int place, const Event event) {
    for (; place > 0 && event < heap_[(place - 1) / 2]; place = (place - 1) / 2)
      put(place, heap_[(place - 1) / 2]);
    put(place, event);
  }
  void sink(int place, const Event event) {
    const int size = static_cast<int>(heap_.size());
    for (int child = 2 * place + 1; child < size; child = 2 * place + 1) {
      if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < event)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, event);
  }

  int first_of_kind_[7];    // into place_; the kinds of a message share one range
  std::vector<int> place_;  // in the heap; -1: no event
  std::vector<Event> heap_;
};

}  // namespace tributary::simulate
