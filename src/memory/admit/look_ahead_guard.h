#pragma once

#include <cstdint>
#include <span>

namespace tributary::memory {

/// Pages of one step at one owner.
struct StepPages {
  std::uint64_t step = 0;
  std::uint64_t planned = 0;  // assigned to the owner, allocated or not
  std::uint64_t held = 0;     // allocated now
};

/// Usable pages of an owner, and those kept for the largest object.
struct OwnerCapacity {
  std::uint64_t pages = 0, reserve = 0;
};

/// Whether `pages` more for step `step` keep every older step placeable: for each older step s,
/// what later steps hold, with these pages, leaves room for all pages of s and the reserve.
///
/// So whatever is missing of the oldest step always fits, in any order of production. The weaker
/// rule "look-ahead may fill all but the reserve" stalls.
///
/// shape: `steps` ascending; the first is the oldest uncommitted step, which only needs free pages
[[nodiscard]] bool may_look_ahead(OwnerCapacity capacity, std::span<const StepPages> steps,
                                  std::uint64_t step, std::uint64_t pages);

/// Whether what is held breaks that rule, as it may after an object of a lost producer was assigned
/// to this owner. Objects of the newest steps are then revoked or cancelled.
[[nodiscard]] bool holds_too_much(OwnerCapacity capacity, std::span<const StepPages> steps);

}  // namespace tributary::memory
