#pragma once

#include <string_view>
#include <vector>

#include "simulate/samples/deal_samples.h"
#include "studies/compare/compare.h"
#include "studies/methods/pipeline_baselines.h"

namespace tributary::studies {

// Methods that run as plans of the trainer, judged by their simulator: no tables of an encoder and
// a backbone, so that any model will do.

inline constexpr std::string_view kSearchMethod = "search";
inline constexpr std::string_view kVeomniMethod = "veomni";

[[nodiscard]] std::vector<std::vector<simulate::SampleSize>> batches_of(
    const config::StudySetting& setting);

/// The default search of `plan`; its MFU is that of the best plan's simulation.
[[nodiscard]] MethodResult run_search(const config::StudySetting& setting);

/// Sharded parameters, sequences cut over `ulysses` ranks and experts over `ep`, as the setting
/// gives them: one sequence in a microbatch of each group. Memory is not judged: losses in place
/// and activations in host memory, which VeOmni has, are not among the costs.
///
/// source: VeOmni, appendix A
/// errors: Fault::kInput naming the setting when the degrees cut not the devices or not the model,
///         or when its samples do not divide over the replicas
[[nodiscard]] MethodResult run_veomni(const config::StudySetting& setting);

/// Makes the plan that a method found by tables one of plan files, and simulates it.
///
/// cost: as trainer_plan
[[nodiscard]] PlanFile judge_plan_file(const config::StudySetting& setting,
                                       const PipelineAnswer& answer,
                                       config::RecomputePlan recompute);

}  // namespace tributary::studies
