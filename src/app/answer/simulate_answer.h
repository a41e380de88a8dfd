#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/answer/argument_name.h"
#include "app/answer/given_options.h"
#include "app/table/read_table.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/cluster/cluster.h"
#include "config/plan/plan.h"
#include "config/trace/trace.h"
#include "simulate/recorded_steps.h"
#include "simulate/simai/simai_workload.h"
#include "simulate/simulate.h"

namespace tributary::app {

struct SimulateRequest {
  config::Plan plan;
  std::string plan_name;  // as the trace shows it
  config::ModuleGraph model;
  std::optional<config::Cluster> cluster = {};  // none: nodes of 8 A100
  std::optional<config::Profile> profile = {};  // measured costs of layers and collectives
  std::string profile_name = {};                // for messages
  std::int64_t threads = 0;                     // of each rank, with a profile of a CPU; 0: an
                                                // equal part of the cores
  std::optional<simulate::RecordedSizes> recorded = {};  // sizes of samples to draw from
  simulate::RecordedSteps run = {};  // steps that a run had, in place of `steps`
  bool mixture = false;  // without recorded sizes: draw the mixture for a backbone alone too
  std::int64_t steps = 1;
  std::int64_t seed = 0;
  bool unfused_attention = false;
  bool sequence_parallel = true;
  std::string reduce_dtype = "float32";  // of gradients: float32, or same as the parameters
  std::int64_t pool = 16;                // microbatches of an encoder that the pool keeps
  std::int64_t ahead = -1;               // whole batches that a frozen `flow` module may be ahead;
                                         // -1: microbatches, as the pool lets it
  double scheduler_ms = 0;
  simulate::Disturbance disturbance = {};
  Caller caller = Caller::kCommandLine;
  GivenOptions given = {};  // what would count for nothing is refused
};

/// A directory with a config.json, or a module graph.
///
/// errors: Fault::kInput as the readers of both
[[nodiscard]] config::ModuleGraph read_graph(const std::string& path);

/// Refuses options of a simulation that would count for nothing beside the others.
///
/// errors: Fault::kInput naming the option and the other one
void refuse_idle_options(const GivenOptions& given);

/// Simulates steps of a plan; the trace shows the median one.
///
/// errors: Fault::kInput naming key and value; a plan that does not fit in memory is an answer
[[nodiscard]] config::Trace answer_simulate(const SimulateRequest& request);

/// Simulates steps of a workload of SimAI; what the request says of a plan is not read.
///
/// errors: Fault::kInput naming key and value
[[nodiscard]] config::Trace answer_workload(const simulate::SimaiWorkload& workload,
                                            const SimulateRequest& request);

/// Gives a request the steps of a run's directory but the first `skip`, and the threads of its
/// ranks where the request says none.
///
/// errors: Fault::kInput as the reader of the steps, or when the run does not say its threads
void take_run(SimulateRequest& request, const std::string& run, std::int64_t skip);

/// Where the model of a plan lies: `given`, or else what the plan names, from its own folder.
///
/// errors: Fault::kInput when neither names one, or the plan one that is not there
[[nodiscard]] std::string find_model(const std::string& given, const config::Plan& plan,
                                     const std::string& plan_path, Caller caller);

/// Sizes of samples from a shape histogram (.json) or a table; or from a table of
/// [samples, 1 to 5]: tokens, patches, the number of images or frames, and of sound beside images
/// its positions and the number of clips.
///
/// errors: Fault::kInput naming the row
[[nodiscard]] simulate::RecordedSizes read_sizes(const std::string& path);
[[nodiscard]] simulate::RecordedSizes sizes_of(const NumberTable& table);

}  // namespace tributary::app
