#include "core/place_items.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tributary {

namespace {

/// The items, the costliest first.
std::vector<std::size_t> order_of(std::span<const std::int64_t> costs) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t item) { return costs[item]; });
  return order;
}

}  // namespace

std::vector<std::int64_t> place_items(std::span<const std::int64_t> costs,
                                      std::span<std::int64_t> loads) {
  std::vector<std::int64_t> place_of(costs.size());
  for (const std::size_t item : order_of(costs)) {
    const auto min = std::ranges::min_element(loads);
    *min += costs[item];
    place_of[item] = min - loads.begin();
  }
  return place_of;
}

std::vector<std::int64_t> place_near(std::span<const std::int64_t> costs,
                                     std::span<const PlaceRange> near,
                                     std::vector<std::int64_t>& loads) {
  std::vector<std::int64_t> level = loads;
  const std::vector<std::int64_t> anywhere = place_items(costs, level);
  const std::int64_t max = std::ranges::max(level);
  std::vector<std::int64_t> place_of(costs.size());
  std::vector<std::int64_t> kept = loads;
  for (const std::size_t item : order_of(costs)) {
    auto min =
        std::ranges::min_element(kept.begin() + near[item].first, kept.begin() + near[item].end);
    if (near[item].first == near[item].end || *min + costs[item] > max)
      min = std::ranges::min_element(kept);
    *min += costs[item];
    place_of[item] = min - kept.begin();
  }
  const bool is_level = std::ranges::max(kept) <= max + max / 64;
  loads = is_level ? kept : level;
  return is_level ? place_of : anywhere;
}

std::vector<std::int64_t> place_items(std::span<const TimeAndRoom> items, std::int64_t capacity,
                                      std::span<TimeAndRoom> loads) {
  double time = 0;
  for (const TimeAndRoom& item : items) time += static_cast<double>(item.time);
  for (const TimeAndRoom& load : loads) time += static_cast<double>(load.time);
  const double mean = std::max(1.0, time / static_cast<double>(loads.size()));
  const auto fraction = [&](const TimeAndRoom& of) {
    return std::max(static_cast<double>(of.time) / mean,
                    static_cast<double>(of.room) / static_cast<double>(capacity));
  };
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t item) { return fraction(items[item]); });
  std::vector<std::int64_t> place_of(items.size());
  for (const std::size_t item : order) {
    const auto with_item = [&](const TimeAndRoom& load) {
      return fraction({load.time + items[item].time, load.room + items[item].room});
    };
    const auto min = std::ranges::min_element(loads, {}, with_item);
    min->time += items[item].time;
    min->room += items[item].room;
    place_of[item] = min - loads.begin();
  }
  return place_of;
}

std::vector<std::int64_t> share_items(std::span<const Grid> grids, std::int64_t places) {
  std::vector<std::int64_t> patches;
  for (const Grid& grid : grids) patches.push_back(grid.patches());
  std::vector<std::int64_t> loads(static_cast<std::size_t>(places));
  return place_items(patches, loads);
}

}  // namespace tributary
