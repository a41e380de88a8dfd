#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sample_shape.h"

namespace tributary {

/// Dispatches items to places, the costliest first, each to the place with the least load so far,
/// and adds their costs to `loads`. Equal items go in their order, to the lowest of equal places.
/// shape: loads [places] -> returns the place of each item
[[nodiscard]] std::vector<std::int64_t> place_items(std::span<const std::int64_t> costs,
                                                    std::span<std::int64_t> loads);

/// Places from `first` to before `end`.
struct PlaceRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// Dispatches items as above, but lets them stay near: the costliest goes first to the least loaded
/// of its near places where that holds no more than the fullest place of place_items, else to the
/// least loaded of all. Where some place then has over 1/64 more than that, it is as place_items.
/// shape: near [items], loads [places] -> returns the place of each item
[[nodiscard]] std::vector<std::int64_t> place_near(std::span<const std::int64_t> costs,
                                                   std::span<const PlaceRange> near,
                                                   std::vector<std::int64_t>& loads);

/// What an item needs, and what a place has: time, and room in any unit.
struct TimeAndRoom {
  std::int64_t time = 0;
  std::int64_t room = 0;

  friend bool operator==(const TimeAndRoom&, const TimeAndRoom&) = default;
};

/// Dispatches items to places that have `capacity` room each, and adds them to `loads`. An item or
/// a load counts by the larger of two fractions: of the mean time of a place, and of the capacity.
/// The largest item goes first, each to the place where the larger fraction is least afterwards;
/// a place may get more than its capacity where no other one has room. Ties as in place_items.
///
/// shape:  loads [places] -> returns the place of each item
/// units:  capacity above 0, in the unit of room
[[nodiscard]] std::vector<std::int64_t> place_items(std::span<const TimeAndRoom> items,
                                                    std::int64_t capacity,
                                                    std::span<TimeAndRoom> loads);

/// Gives whole images and clips to places, by their patches.
/// shape: returns the place of each item
[[nodiscard]] std::vector<std::int64_t> share_items(std::span<const Grid> grids,
                                                    std::int64_t places);

}  // namespace tributary
