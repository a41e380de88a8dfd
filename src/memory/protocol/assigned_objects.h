#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "memory/wire/messages.h"

namespace tributary::memory {

/// The objects that an owner makes for one step, in the order of its ASSIGN. Knows which are begun.
class AssignedObjects {
 public:
  AssignedObjects() = default;
  explicit AssignedObjects(AssignMessage message);

  /// The version of the ASSIGN; 0: none has come.
  [[nodiscard]] std::uint64_t version() const { return message_.version; }
  /// Pages of all objects.
  [[nodiscard]] std::uint64_t pages() const { return pages_; }
  /// The first object that is not begun and has fewer pages than `below`; null: there is none.
  ///
  /// cost: grows with the number of different sizes, not of objects
  [[nodiscard]] const AssignedObject* next(std::uint64_t below) const;
  /// The object is being made, or is there. Objects of other steps change nothing, as below.
  void begin(const Key& key);
  /// The object has to be made again.
  void reopen(const Key& key);

 private:
  [[nodiscard]] std::optional<std::uint32_t> place_of(const Key& key) const;

  AssignMessage message_;
  std::uint64_t pages_ = 0;
  std::vector<std::pair<Key, std::uint32_t>> places_;      // in the message, by key
  std::map<std::uint32_t, std::set<std::uint32_t>> open_;  // places by pages; no set is empty
};

}  // namespace tributary::memory
