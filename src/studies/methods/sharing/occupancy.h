#pragma once

#include <optional>

#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::studies {

/// How much of the devices' units has work over a step, 0 to 1.
struct Occupancy {
  double mean = 0;   // of all devices
  double least = 0;  // of the least occupied one
};

/// A module adds its share of a device's units times its time there, as far as kernels run in it:
/// what waits for the host, for a reduction or for the slowest device counts 0, as does a device
/// that has nothing. All devices of a module count as their mean. None where there is no plan, or
/// the problem does not say how busy its modules keep devices.
///
/// source: the measure of Mosaic's figure 10 is compute warps in flight; this is how long any are,
///         not how many
[[nodiscard]] std::optional<Occupancy> occupancy_of(const plan::SharingProblem& problem,
                                                    const SharingAnswer& answer);

}  // namespace tributary::studies
