#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/sharing/sharing_problem.h"
#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::studies {

/// Devices, a power of two, from which on a module fits them; one more than there are where it fits
/// none. Numbers between powers of two count as the lower one.
[[nodiscard]] std::int64_t least_devices(const plan::SharingProblem& problem, std::int64_t module);

/// Of modules in their order the first ones that fit devices of their own together.
[[nodiscard]] std::size_t count_side_by_side(const plan::SharingProblem& problem,
                                             std::span<const std::int32_t> modules);

/// The first module that does not fit, and by how much; empty where all fit. Methods that take all
/// devices for each module need it there, others on any number of them.
[[nodiscard]] std::string explain_memory(const plan::SharingProblem& problem, bool on_all_devices);

/// Gives modules without a place whole devices: first where they are already, then the emptiest.
/// Returns bytes of the fullest device: what all modules that run on it keep between waves, and
/// what those of one wave take beside. A wave counts its modules whole, also where it runs a part
/// of their layers: no less than they take.
[[nodiscard]] Bytes place_waves(const plan::SharingProblem& problem, std::span<BaselineWave> waves);

/// The answer with its waves placed; where the fullest device is above the limit it has no plan,
/// and the bound on time stays.
[[nodiscard]] SharingAnswer hold_to_memory(const plan::SharingProblem& problem,
                                           SharingAnswer answer);

}  // namespace tributary::studies
