#pragma once

#include <cstdint>

#include "config/plan/plan.h"

namespace tributary::config {

/// The plan that a run of `world` processes trains by: its `parallel` section expanded, or the plan
/// that it names, with the layers of every module.
///
/// errors: Fault::kInput when it does not fit `world` ranks or the model, as check_trains
[[nodiscard]] Plan plan_of_run(const RunConfig& run, std::int64_t world, const ModelConfig& model);

/// The part of a plan that the ranks of its job run: modules with placement `flow` run in encoder
/// processes, and for the ranks they are as good as inline.
[[nodiscard]] Plan plan_of_ranks(Plan plan);

}  // namespace tributary::config
