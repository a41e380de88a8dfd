#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/artifact/profile.h"

namespace tributary::cost {

/// What was measured of one quantity: a layer's forward by tokens, an all-reduce's time by bytes.
struct ProfileColumn {
  std::vector<double> sizes;          // tokens or bytes, ascending
  std::vector<std::int64_t*> values;  // nanoseconds or bytes, inside the profile itself
  bool is_time = true;
};

/// Calls `visit` for every column of the layers' tables, and of the collectives by number of ranks.
void for_each_column(config::Profile& profile,
                     const std::function<void(const ProfileColumn&)>& visit);

/// The profile nearest by squares whose times never decrease with the size: neighbours that
/// contradict each other share what noise added or removed. Bytes have no noise and stay. Attention
/// is as raise_attention leaves it.
///
/// cost:   linear in the points
/// source: pool adjacent violators (Ayer et al. 1955)
[[nodiscard]] config::Profile never_decreasing(config::Profile profile);

}  // namespace tributary::cost
