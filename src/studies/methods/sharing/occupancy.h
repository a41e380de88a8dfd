#pragma once

#include <optional>

#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::studies {

/// The fraction of the devices' units with work over a step, 0 to 1.
struct Occupancy {
  double mean = 0;   // of all devices
  double least = 0;  // min over devices
};

/// A module adds its fraction of a device's units times its time there, as far as kernels run in
/// it. Waiting for the host, a reduction or the slowest device counts 0, and so does an unused
/// device. All devices of a module count with their mean. Null where there is no plan, or the
/// problem does not say how busy its modules keep devices.
///
/// source: Mosaic's figure 10 measures compute warps in flight; this measures how long there are
///         any, not how many
[[nodiscard]] std::optional<Occupancy> occupancy_of(const plan::SharingProblem& problem,
                                                    const SharingAnswer& answer);

}  // namespace tributary::studies
