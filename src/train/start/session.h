#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "data/loader/loader.h"
#include "data/text/tokenizer.h"
#include "model/model.h"
#include "train/balance/flops.h"
#include "train/balance/sample_router.h"
#include "train/balance/step_planner.h"
#include "train/checkpoint/compatibility.h"
#include "train/flow/arrival_order.h"
#include "train/flow/encoder_request.h"
#include "train/flow/flow.h"
#include "train/optimizer/optimizer.h"
#include "train/placement/run_lanes.h"
#include "train/start/ranks.h"

namespace tributary::train {

/// All that a run works with, opened and checked.
struct Session {
  config::RunConfig config;
  config::ModelConfig model_config;
  config::Plan plan;
  const mesh::Mesh* mesh = nullptr;  // of the backbone; of the ranks, which outlive the session
  mesh::Health* health = nullptr;    // null on one rank
  Drill* drill = nullptr;            // of the ranks; null without drill.fault
  at::Device device = at::kCPU;
  AdapterWork adapters;
  std::vector<std::string> sources;  // names, in the order of the configuration
  std::unique_ptr<model::Model> model;
  RunLanes lanes;
  std::unique_ptr<SampleRouter> router;  // outlives the loader
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::unique_ptr<data::SampleEncoder> encoder;
  std::shared_ptr<const MeasuredTimes> times;  // of batch.costs; null: FLOPs
  std::unique_ptr<StepPlanner> planner;  // null unless samples are balanced; outlives the loader
  std::unique_ptr<Flow> flow;            // null without placement `flow`; likewise
  std::unique_ptr<EncoderRequest> encoder_request;  // of rank 0; null: their number is fixed
  std::unique_ptr<ArrivalOrder> arrival;            // null with pool.order data; likewise
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<data::HeldOut> held_out;
  std::unique_ptr<Optimizer> optimizer;
  RunIdentity identity;  // what a checkpoint of this run may be resumed with

  [[nodiscard]] bool leads() const { return mesh->world().index() == 0; }
};

/// Whether a run on the device takes kernels that give the same bits each time.
[[nodiscard]] bool is_deterministic(config::Deterministic asked, at::Device device);

/// Reads the settings of `adapter.path`, holds the targets against the model, and freezes modules
/// without an adapter; a run without adapters stays as it is.
///
/// errors: as model::read_peft_section and config::freeze_without_adapter
[[nodiscard]] config::RunConfig resolve_adapter(config::RunConfig config);

/// Builds the model of a run as it lies over the ranks, with its weights. `on_progress` is called
/// while they are read or drawn.
[[nodiscard]] std::unique_ptr<model::Model> build_model(const config::RunConfig& config,
                                                        const config::ModelConfig& model_config,
                                                        const model::ModelLayout& layouts,
                                                        at::Device device,
                                                        const model::OnProgress& on_progress = {});

/// Fills the parameters of a model that lie here with those that a run begins with, without
/// adapters that were trained before.
void set_first_weights(model::Model& model, const config::RunConfig& config,
                       const model::OnProgress& on_progress = {});

/// The type of parameters and activations. errors: Fault::kInput where the device does not take it
[[nodiscard]] at::ScalarType dtype_of(const config::ModelSection& model, const at::Device& device);

/// Sets compute threads and determinism of this process.
void set_compute(const config::RunSection& run, std::int64_t local_world, at::Device device);

/// The number of steps of a run that counts epochs: each is a pass over `records`.
[[nodiscard]] std::int64_t steps_of_epochs(const config::RunConfig& config, std::int64_t records);

/// Sets threads and determinism, builds this rank's part of the model with its weights, and opens
/// its part of the data. `say` gets a line before work that takes long: much data, or large
/// weights.
///
/// errors: Fault::kInput for what the configuration names and is not there or does not fit;
///         Fault::kResource for a device that is not there
[[nodiscard]] Session open_session(
    const config::RunConfig& config, const Ranks& ranks, const std::string& quarantine_path,
    const std::function<void(const std::string&)>& say = [](const std::string&) {});

/// Opens what it takes to answer questions of `data.sources[].held_out`: no loader of training
/// samples, no optimizer. `load` fills the model, whose parameters lie on their device already.
///
/// errors: as open_session
[[nodiscard]] Session open_evaluation(const config::RunConfig& config, const Ranks& ranks,
                                      const std::function<void(model::Model&)>& load);

}  // namespace tributary::train
