#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/baseline/training_problem.h"
#include "plan/certificate.h"

namespace tributary::plan {

/// The best plan of a method in its own space, judged on the batches of the problem.
struct PipelineAnswer {
  Certificate certificate = {};  // of the mean step; the bound is the work on all devices at peak
  std::string plan = {};         // degrees and numbers, as a person reads them
  double busy_share = 0;         // of the devices' time in a step that is work at the plan's shapes
  double least_bytes = 0;  // of a device, that the leanest plan needs; 0: not for want of them
};

/// What an entry of the list is.
enum class BaselineRole {
  kMethod,      // a system as published
  kBatchAhead,  // the same, with features encoded ahead of the step that takes them: as fresh as
                // those of others only where the encoder does not train
  kAblation,    // a system without one of its parts
  kReference,   // no method: a part of the model, or plainer kernels
  kOurs,
};

/// A way to place an encoder and a backbone, under its own name.
struct PipelineBaseline {
  std::string_view name;
  std::string_view source;
  BaselineRole role;
  PipelineAnswer (*solve)(const TrainingProblem& problem);
  std::string_view beyond_exact = {};  // what its plans have that none of `exact` has
};

/// All of them: the one list that `compare` and the tests go through.
[[nodiscard]] std::span<const PipelineBaseline> pipeline_baselines();

}  // namespace tributary::plan
