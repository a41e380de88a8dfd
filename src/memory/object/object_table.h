#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/address/global_address.h"
#include "memory/arena/arena.h"
#include "memory/object/generations.h"
#include "memory/status.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

/// Where a slot is in its life; a free one does not exist. A sealed object may be leased.
enum class ObjectState { kReserved, kWriting, kSealed, kRetired };

/// One object's stay in the pool; numbers are not used again.
enum class SlotId : std::uint64_t {};

/// Who reads an object. A lease ends with its holder's membership.
struct LeaseHolder {
  std::uint16_t process = 0;
  std::uint32_t epoch = 0;
  std::uint64_t lease_id = 0;

  friend auto operator<=>(const LeaseHolder&, const LeaseHolder&) = default;
};

struct ObjectSlot {
  Key key = {};
  std::uint64_t step = 0;
  std::uint32_t pages = 0;
  ObjectState state = ObjectState::kReserved;
  std::vector<PageRun> runs = {};
  ObjectHandle handle = {};  // from seal() on
  std::map<LeaseHolder, TimePoint> leases = {};
};

/// What the encoder says about finished bytes. An object without bytes is one that cannot be made.
struct ObjectDescription {
  std::uint64_t bytes = 0;
  std::uint32_t tokens = 0, crc32c = 0;
  ElementType dtype = ElementType::kU8;
  std::vector<std::uint32_t> shape = {};  // at most kMaxDims; empty: plain bytes
  bool has_crc = true;
  bool is_on_device = false;  // too, in the same pages
};

/// The segment that a table keeps account of.
///
/// units: offset in bytes, a multiple of page_bytes
struct SegmentPlace {
  Tier tier{};
  std::uint16_t process = 0;
  std::uint64_t offset = 0;
  std::uint32_t page_bytes = 0, pages = 0;
};

/// The objects of one segment, their pages, states and leases. The owner alone changes them:
///
///   (free) -> reserved -> writing -> sealed -> retired -> (free)
///
/// A retired object is freed with its last lease. Every other transition is a bug. Used by one
/// thread.
class ObjectTable {
 public:
  static constexpr Nanoseconds kLeaseTtl{60'000'000'000};

  /// owns: borrows `generations`, one for each page
  ObjectTable(const SegmentPlace& place, std::uint32_t epoch, Generations generations);

  /// Takes pages for an object of a step; null when it must wait.
  [[nodiscard]] std::optional<SlotId> reserve(const Key& key, std::uint64_t step,
                                              std::uint32_t pages, Urgency urgency);
  void begin_write(SlotId id);
  /// The bytes could not be made, or are cancelled: gives the pages back.
  void abort(SlotId id);
  /// Makes the object readable under a new generation.
  ///
  /// errors: Fault::kBug when the pages do not hold the bytes, or the slot is not being written
  const ObjectHandle& seal(SlotId id, const ObjectDescription& description);

  /// Takes a lease; the same one twice changes nothing. A retired object may be leased again only
  /// by a reader that holds one.
  ///
  /// errors: kBounds when the address is not of this segment, kStale when no such object lies there
  [[nodiscard]] Status lease(const LeaseHolder& holder, const LeaseEntry& entry, TimePoint now);
  void unlease(const LeaseHolder& holder);
  /// Drops all leases of a process that were taken under an earlier epoch.
  void drop_reader(std::uint16_t process, std::uint32_t before_epoch);

  /// Retires all sealed objects of this step and earlier ones.
  void retire_through(std::uint64_t step);
  /// Frees a sealed object that nobody reads; false when it is leased or not sealed.
  bool revoke(SlotId id);
  /// Frees retired objects whose leases are all older than kLeaseTtl: the last resort against a
  /// reader that neither ends nor is fenced. Such a reader sees kStale.
  void expire_leases(TimePoint now);

  /// The sealed or retired object that begins at this address; null when there is none.
  [[nodiscard]] const ObjectSlot* find(std::uint64_t gva) const;
  [[nodiscard]] const ObjectSlot& slot(SlotId id) const;
  [[nodiscard]] const std::map<SlotId, ObjectSlot>& slots() const { return slots_; }
  [[nodiscard]] const Arena& arena() const { return arena_; }
  [[nodiscard]] const SegmentPlace& place() const { return place_; }
  [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
  [[nodiscard]] std::size_t leases() const { return leased_.size(); }
  /// Pages of all slots, by step.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& held() const { return held_; }

 private:
  ObjectSlot& in_state(SlotId id, ObjectState state);
  void retire(SlotId id, ObjectSlot& slot);
  void free(SlotId id);
  [[nodiscard]] std::uint64_t gva_of(std::uint32_t page) const;

  SegmentPlace place_;
  std::uint32_t epoch_;
  Generations generations_;
  Arena arena_;
  std::uint64_t next_slot_ = 1;
  std::uint64_t generation_ = 0;
  std::map<SlotId, ObjectSlot> slots_;
  std::unordered_map<std::uint32_t, SlotId> by_first_page_;  // sealed and retired ones
  std::map<LeaseHolder, std::vector<SlotId>> leased_;
  std::map<std::uint64_t, std::uint64_t> held_;
  std::set<SlotId> retired_;  // which leases keep
};

}  // namespace tributary::memory
