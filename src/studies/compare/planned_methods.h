#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/problem/planning_problem.h"
#include "simulate/samples/deal_samples.h"
#include "studies/compare/compare.h"
#include "studies/methods/all_methods.h"

namespace tributary::studies {

// Methods that run as plans of the trainer, judged by the plan simulator. They need no tables of an
// encoder and a backbone, so any model will do.

inline constexpr std::string_view kSearchMethod = "search";
inline constexpr std::string_view kVeomniMethod = "veomni";

[[nodiscard]] std::vector<std::vector<simulate::SampleSize>> batches_of(
    const config::StudySetting& setting);

/// The default search of `plan`; its MFU is that of the best plan's simulation.
[[nodiscard]] MethodResult run_search(const config::StudySetting& setting);

/// Sharded parameters, sequences cut over `ulysses` ranks and experts over `ep`, as the setting
/// gives them, with one sequence in a microbatch of each group. Memory is not judged: VeOmni
/// computes losses in place and keeps activations in host memory, which the costs do not cover.
///
/// source: VeOmni, appendix A
/// errors: Fault::kInput naming the setting when the degrees do not fit the devices or the model,
///         or when its samples do not divide among the replicas
[[nodiscard]] MethodResult run_veomni(const config::StudySetting& setting);

/// A plan of the trainer, as `describe` tells it.
struct PlannedMethod {
  config::Plan plan = {};
  std::string text = {};
  Nanoseconds step = {};  // mean over the batches
  std::int64_t evaluations = 0;
};

/// The faster one of VeOmni's plans with the levels of recompute of the problem.
///
/// errors: as run_veomni
[[nodiscard]] PlannedMethod plan_veomni(const plan::PlanningProblem& problem,
                                        const config::StudySetting& setting);

/// Converts a plan that a method found by tables into a plan file's form, and simulates it.
///
/// cost: as trainer_plan
[[nodiscard]] PlanFile judge_plan_file(const config::StudySetting& setting,
                                       const PipelineAnswer& answer,
                                       config::RecomputePlan recompute);

/// Counts the model FLOPs of a plan's step: forward and gradients of the mean batch, with half the
/// square for causal attention, and without recompute.
///
/// errors: Fault::kInput as LayerStageCosts
/// cost:   microseconds; nothing is simulated
[[nodiscard]] double mean_flops(const plan::PlanningProblem& problem, const config::Plan& plan);

/// Those over the peak FLOPs of all devices in a step of `step_s` seconds.
[[nodiscard]] double mean_mfu(const plan::PlanningProblem& problem, const config::Plan& plan,
                              double step_s);

}  // namespace tributary::studies
