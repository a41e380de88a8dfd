#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/artifact/profile.h"

namespace tributary::cost {

/// What was measured of one quantity: a layer's forward by tokens, an all-reduce's time by bytes.
struct ProfileColumn {
  std::vector<double> sizes;          // tokens or bytes, ascending
  std::vector<std::int64_t*> values;  // nanoseconds or bytes, of the profile that it was taken from
  bool is_time = true;
};

/// Calls for every column of the layers' tables, and of the collectives for every number of ranks.
void for_each_column(config::Profile& profile,
                     const std::function<void(const ProfileColumn&)>& visit);

/// A profile whose times never decrease with the size: of all such the nearest one by squares. What
/// noise lifted or sank is shared with the neighbours that contradict it. Bytes have no noise, and
/// stay.
///
/// cost:   linear in the points
/// source: pool adjacent violators (Ayer et al. 1955)
[[nodiscard]] config::Profile never_decreasing(config::Profile profile);

}  // namespace tributary::cost
