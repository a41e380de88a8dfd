#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "config/run/mesh_shape.h"
#include "config/run/run_config.h"
#include "core/exit_code.h"
#include "core/units.h"

namespace tributary::train {

struct TrainRequest {
  config::RunConfig config;
  std::string resume;      // empty: a fresh run; `auto`: the newest checkpoint, or fresh; PATH
  bool fall_back = false;  // with `auto`: past damaged checkpoints to the newest whole one
  std::vector<std::string> accepted_changes;  // keys of the identity that may differ
  bool allow_nonfinite = false;               // weights to begin with may hold NaN or infinity
  std::string command;                        // as typed, for environment.json
  std::string resume_command;                 // what to type to go on
  // Estimates the bytes of activations of a full microbatch on each rank of a mesh; null: 0.
  std::function<Bytes(const config::MeshShape&)> estimate_activations = {};
};

struct TrainEnd {
  ExitCode code = ExitCode::kDone;
  bool leads = true;  // rank 0, which speaks and writes for all
};

/// Trains as the configurations say, one stage after the other, and leaves the directory of each
/// behind; `out` gets the progress of rank 0. With `resume: auto` stages that are done are left
/// out, but for the last.
///
/// The code is kDone, kTerminated after SIGTERM or Ctrl-C (a checkpoint is committed), or
/// kNonFinite.
/// errors: Fault::kInput for a configuration, model, data set or checkpoint that cannot be used,
///         each before the first step; kDataLimit when too many records are bad; Fault::kResource,
///         also before weights are allocated for a model that does not fit into memory
[[nodiscard]] TrainEnd train(std::span<const TrainRequest> stages, std::ostream& out);

}  // namespace tributary::train
