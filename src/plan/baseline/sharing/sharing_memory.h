#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/baseline/sharing/sharing_baselines.h"
#include "plan/staging/sharing_problem.h"
#include "plan/staging/staging.h"

namespace tributary::plan {

/// Devices, a power of two, from which on a module fits them; one more than there are where it fits
/// none. Numbers between powers of two count as the lower one.
[[nodiscard]] std::int64_t least_devices(const SharingProblem& problem, std::int64_t module);

/// Of modules in their order the first ones that fit devices of their own together.
[[nodiscard]] std::size_t count_side_by_side(const SharingProblem& problem,
                                             std::span<const std::int32_t> modules);

/// The first module that does not fit, and by how much; empty where all fit. Methods that take all
/// devices for each module need it there, others on any number of them.
[[nodiscard]] std::string explain_memory(const SharingProblem& problem, bool on_all_devices);

/// Bytes of the fullest device: what all modules that run on it keep between stages, and what those
/// of one stage take beside. Waves go to the emptiest devices, a module first where it is already.
/// A wave counts its modules whole, also where it runs a part of their layers: no less than they
/// take.
[[nodiscard]] Bytes fullest_device(const SharingProblem& problem,
                                   std::span<const SharedStage> stages);
[[nodiscard]] Bytes fullest_device(const SharingProblem& problem,
                                   std::span<const BaselineWave> waves);

/// The certificate of a plan with such a device: above the limit the plan is none, and the bound on
/// time stays.
[[nodiscard]] Certificate hold_to_memory(const SharingProblem& problem, Certificate found,
                                         Bytes fullest);
/// The same of the waves of an answer.
[[nodiscard]] SharingAnswer hold_to_memory(const SharingProblem& problem, SharingAnswer answer);

}  // namespace tributary::plan
