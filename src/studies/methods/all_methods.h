#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/plan/plan.h"
#include "plan/certificate.h"
#include "studies/methods/training_problem.h"

namespace tributary::studies {

enum class Deal;  // batch_runner.h

/// A method's plan in the form of the trainer's plans. Layers are cut as evenly as possible.
struct TrainerForm {
  Degrees backbone = {};
  std::int64_t microbatches = 1;                               // of each replica of the backbone
  config::Placement placement = config::Placement::kSeparate;  // of the encoder
  Degrees encoder = {};                                        // of its own, where it is not inline
  bool shards = false;                  // parameters over all ranks, else whole copies
  std::int64_t first_layers = -1;       // of the backbone's first stage; -1: as even as the others
  std::int64_t first_stage_passes = 0;  // of a colocated encoder on the ranks of the first stage
                                        // alone, which takes turns with it; 0: on all ranks

  friend bool operator==(const TrainerForm&, const TrainerForm&) = default;
};
[[nodiscard]] TrainerForm form_of(const Plan3d& plan);

/// The best plan of a method in its own space, judged on the batches of the problem.
struct PipelineAnswer {
  plan::Certificate certificate =
      {};                 // of the mean step; the bound is the work on all devices at peak
  std::string plan = {};  // degrees and numbers, for people
  std::optional<TrainerForm> form = {};  // null: the trainer has no such plans
  double busy_share = 0;  // part of the devices' time that is work at the plan's shapes
  // The part that stages wait while their replica's pipeline runs; null: there are no pipelines, or
  // such waits are not known.
  std::optional<double> bubble_share = {};
  double min_bytes = 0;  // that the leanest plan needs on a device; 0: memory is not the problem
};

/// The kind of an entry of the list.
enum class BaselineRole {
  kMethod,      // a system as published
  kBatchAhead,  // the same, with features encoded ahead of the step that uses
                // them: as fresh as others' only if the encoder does not train
  kAblation,    // a system without one of its parts
  kReference,   // not a method: a part of the model, or plainer kernels
  kBound,       // not a system: the best of all other plans, which nobody runs as one
};

/// A way to place an encoder and a backbone, with its name.
struct PipelineBaseline {
  std::string_view name;
  std::string_view source;
  BaselineRole role;
  PipelineAnswer (*solve)(const TrainingProblem& problem);
  Deal dispatch;                        // of samples to replicas of the backbone
  std::string_view beyond_search = {};  // what its plans have and those of `search` do not
  bool encodes = true;                  // false: its steps have no FLOPs of the encoder
};

/// The list that `compare` and the tests go through.
[[nodiscard]] std::span<const PipelineBaseline> pipeline_baselines();

}  // namespace tributary::studies
