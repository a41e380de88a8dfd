#include "core/place_items.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tributary {

std::vector<std::int64_t> place_items(std::span<const std::int64_t> costs,
                                      std::span<std::int64_t> loads) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t item) { return costs[item]; });
  std::vector<std::int64_t> place_of(costs.size());
  for (const std::size_t item : order) {
    const auto least = std::ranges::min_element(loads);
    *least += costs[item];
    place_of[item] = least - loads.begin();
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
