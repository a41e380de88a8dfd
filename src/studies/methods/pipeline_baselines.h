#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/plan/plan.h"
#include "plan/certificate.h"
#include "studies/methods/training_problem.h"

namespace tributary::studies {

/// A method's plan in the form of the trainer's plans. Layers are cut as evenly as can be.
struct TrainerForm {
  Degrees backbone = {};
  std::int64_t microbatches = 1;                               // of each replica of the backbone
  config::Placement placement = config::Placement::kSeparate;  // of the encoder
  Degrees encoder = {};                                        // of its own, where it is not inline
  bool shards = false;             // parameters over all ranks, else whole copies
  std::int64_t first_layers = -1;  // of the backbone's first stage; -1: as even as the others

  friend bool operator==(const TrainerForm&, const TrainerForm&) = default;
};
[[nodiscard]] TrainerForm form_of(const Plan3d& plan);

/// The best plan of a method in its own space, judged on the batches of the problem.
struct PipelineAnswer {
  plan::Certificate certificate =
      {};                 // of the mean step; the bound is the work on all devices at peak
  std::string plan = {};  // degrees and numbers, as a person reads them
  std::optional<TrainerForm> form = {};  // none: the trainer has no such plans
  double busy_share = 0;  // of the devices' time in a step that is work at the plan's shapes
  // And that stages wait while the pipeline of their replica runs; none: without pipelines, or
  // where such waits are not told apart.
  std::optional<double> bubble_share = {};
  double least_bytes = 0;  // of a device, that the leanest plan needs; 0: not for want of them
};

/// What an entry of the list is.
enum class BaselineRole {
  kMethod,      // a system as published
  kBatchAhead,  // the same, with features encoded ahead of the step that takes them: as fresh as
                // those of others only where the encoder does not train
  kAblation,    // a system without one of its parts
  kReference,   // no method: a part of the model, or plainer kernels
  kBound,       // no system: the best of all the others' plans, which nobody runs as one
};

/// A way to place an encoder and a backbone, under its own name.
struct PipelineBaseline {
  std::string_view name;
  std::string_view source;
  BaselineRole role;
  PipelineAnswer (*solve)(const TrainingProblem& problem);
  std::string_view beyond_search = {};  // what its plans have that none of `search` has
  bool encodes = true;                  // else the encoder's FLOPs are none of its steps'
};

/// All of them: the one list that `compare` and the tests go through.
[[nodiscard]] std::span<const PipelineBaseline> pipeline_baselines();

}  // namespace tributary::studies
