#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory/protocol/event.h"

namespace tributary::memory {

/// A producer's room for objects.
struct OwnerSpace {
  std::uint16_t process = 0;
  std::uint64_t pages = 0;
  bool lends = false;  // it makes nothing but what names it
};

/// An object of a planned step: who makes it, who reads it, where it is.
struct ObjectRecord {
  std::uint64_t step = 0;
  std::uint32_t pages = 0;
  std::uint32_t bundle = 0;
  std::optional<std::uint16_t> lender = {};
  std::vector<std::uint16_t> readers = {};
  std::optional<std::uint16_t> owner = {};
  std::optional<ObjectHandle> handle = {};  // while it is sealed
  std::uint64_t newest_generation = 0;      // of the owner, published or retracted
  std::uint64_t sequence = 0;               // of the last PUBLISH to readers
  bool is_given_up = false;                 // readers know that no producer has room for it
};

/// The controller's account of the objects of uncommitted steps. Who makes an object is no part of
/// the plan: it follows from who lives.
class ObjectBook {
 public:
  /// units: pages of the largest object, which every owner keeps free for step `low`
  explicit ObjectBook(std::uint64_t reserve) : reserve_(reserve) {}

  void add(std::uint64_t step, const PlannedObject& object, std::vector<std::uint16_t> readers);
  /// Gives each object of the step that has no owner to the one that has its bundle, or else the
  /// fewest pages of this step; a tie takes the lowest process. Returns the pages that each owner
  /// got. Where only the reserve has room, an owner takes one object into it; where nothing has,
  /// objects stay without an owner.
  std::map<std::uint16_t, std::uint64_t> assign(std::uint64_t step,
                                                std::span<const OwnerSpace> owners);
  /// The objects of a step that have no owner, and whose readers do not know; now they do.
  std::vector<std::pair<Key, std::vector<std::uint16_t>>> give_up(std::uint64_t step);
  [[nodiscard]] std::vector<AssignedObject> objects_of(std::uint64_t step,
                                                       std::uint16_t owner) const;
  /// The owner is lost: its objects have none, and are nowhere.
  void release(std::uint16_t owner);

  /// Takes a handle; null when the sender is not the owner or it is not newer than what is known.
  ObjectRecord* publish(const ObjectHandle& handle);
  /// The object is gone from its owner, who makes it again.
  void retract(std::uint16_t owner, const RetractMessage& message);
  /// Forgets a committed step; returns its keys.
  std::vector<Key> erase(std::uint64_t step);

  [[nodiscard]] ObjectRecord* find(const Key& key);
  [[nodiscard]] const std::map<Key, ObjectRecord>& records() const { return records_; }

 private:
  /// What an owner makes of a step.
  struct Share {
    std::uint64_t pages = 0;
    std::vector<std::uint32_t> places = {};  // ascending
  };
  struct Step {
    std::vector<std::map<Key, ObjectRecord>::value_type*> objects = {};  // by place
    std::vector<std::uint32_t> open = {};  // places of those without an owner, ascending
    std::map<std::uint16_t, Share> shares = {};
    std::map<std::uint32_t, std::uint16_t> bundles = {};  // owners
  };
  class Choice;

  std::uint64_t reserve_;
  std::map<Key, ObjectRecord> records_;
  std::map<std::uint64_t, Step> steps_;
};

}  // namespace tributary::memory
