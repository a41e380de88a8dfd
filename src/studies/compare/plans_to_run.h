#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/study/study.h"
#include "plan/problem/planning_problem.h"

namespace tributary::studies {

/// A method's plan as processes run it, or the reason why none does.
struct PlanToRun {
  std::string method = {};
  std::string source = {};
  std::optional<config::Plan> plan = {};  // null: `reason` says why
  std::string text = {};                  // the plan in words
  std::string reason = {};
  Nanoseconds simulated = {};  // median step on the batches, those of the warm-up left out
  double mfu = 0;              // of that step; 0: the peak of the devices is not known
};

/// Why the trainer refuses a plan; empty where it accepts it.
using TrainerRefusal = std::function<std::string(const config::Plan&)>;

/// What is told of each method before it is planned.
using OnMethod = std::function<void(std::string_view method)>;

/// The shapes of the samples of batches.
using SampleBatches = std::vector<std::vector<SampleShape>>;

/// Plans every method of a study for a machine and for the batches that a run will have, in the
/// trainer's form and with the method's own dispatch of samples.
///
/// Methods that dispatch samples in order go round-robin over the replicas, and each replica packs
/// its own into at most the method's number of microbatches; all others are balanced as the trainer
/// does it. Simulated steps deal images and clips to encoders as the trainer does. A method without
/// a form of the trainer, a reference, and a plan that `refusal` or memory refuses have a reason in
/// place of a plan.
///
/// shape:  samples [batches of the problem][global samples] -> returns [methods], in the order of
///         the study
/// errors: Fault::kInput as problem_of_model and plan_veomni
/// cost:   that of each method's search, and of one simulation of the batches
[[nodiscard]] std::vector<PlanToRun> plans_to_run(const config::Study& study,
                                                  const config::StudySetting& setting,
                                                  const plan::PlanningProblem& problem,
                                                  const SampleBatches& samples,
                                                  const TrainerRefusal& refusal,
                                                  const OnMethod& on_method = {});

/// Makes a plan dispatch samples round-robin: `batch.balance` none, and the least capacity with
/// which no replica has more than the plan's microbatches in any batch.
[[nodiscard]] config::Plan dispatched_in_order(const plan::PlanningProblem& problem,
                                               config::Plan plan);

}  // namespace tributary::studies
