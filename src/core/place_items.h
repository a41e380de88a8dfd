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

/// Gives whole images and clips to places, by their patches.
/// shape: returns the place of each item
[[nodiscard]] std::vector<std::int64_t> share_items(std::span<const Grid> grids,
                                                    std::int64_t places);

}  // namespace tributary
