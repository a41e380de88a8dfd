#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/sharing/sharing_problem.h"
#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::studies {

/// Min devices, a power of two, on which a module fits; one more than exist where it fits on none.
/// Numbers between powers of two count as the lower one.
[[nodiscard]] std::int64_t min_devices(const plan::SharingProblem& problem, std::int64_t module);

/// How many of the first modules, in their order, fit side by side on devices of their own.
[[nodiscard]] std::size_t count_side_by_side(const plan::SharingProblem& problem,
                                             std::span<const std::int32_t> modules);

/// The first module that does not fit, and by how much; empty where all fit. With `on_all_devices`
/// each module must fit on all devices, otherwise on any number.
[[nodiscard]] std::string explain_memory(const plan::SharingProblem& problem, bool on_all_devices);

/// Gives modules without a place whole devices: first those that already hold them, then the
/// emptiest. Returns the bytes of the fullest device: what its modules keep between waves, and on
/// top what those of one wave need. A wave counts whole modules, even where it runs a part of their
/// layers, so the result is an upper bound.
[[nodiscard]] Bytes place_waves(const plan::SharingProblem& problem, std::span<BaselineWave> waves);

/// The answer with its waves placed. Where the fullest device is above the limit it has no plan,
/// but the bound on time stays.
[[nodiscard]] SharingAnswer hold_to_memory(const plan::SharingProblem& problem,
                                           SharingAnswer answer);

}  // namespace tributary::studies
