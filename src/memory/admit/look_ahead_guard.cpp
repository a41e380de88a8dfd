#include "memory/admit/look_ahead_guard.h"

#include <algorithm>

namespace tributary::memory {
namespace {

std::uint64_t held_after(std::span<const StepPages> steps, std::uint64_t step) {
  std::uint64_t pages = 0;
  for (const StepPages& one : steps)
    if (one.step > step) pages += one.held;
  return pages;
}

/// Pages that later steps may hold, after a step with `planned` pages.
std::uint64_t room_after(OwnerCapacity capacity, std::uint64_t planned) {
  return capacity.pages - std::min(capacity.pages, capacity.reserve + planned);
}

}  // namespace

bool may_look_ahead(OwnerCapacity capacity, std::span<const StepPages> steps, std::uint64_t step,
                    std::uint64_t pages) {
  return std::ranges::all_of(steps, [&](const StepPages& older) {
    return older.step >= step ||
           held_after(steps, older.step) + pages <= room_after(capacity, older.planned);
  });
}

bool holds_too_much(OwnerCapacity capacity, std::span<const StepPages> steps) {
  return std::ranges::any_of(steps, [&](const StepPages& older) {
    return held_after(steps, older.step) > room_after(capacity, older.planned);
  });
}

}  // namespace tributary::memory
