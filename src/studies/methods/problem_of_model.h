#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "cost/cost_source.h"
#include "simulate/samples/deal_samples.h"
#include "studies/methods/training_problem.h"

namespace tributary::studies {

/// How a model is trained, besides the model and the cluster.
struct ModelSetting {
  std::int64_t devices = 0;                                     // 0: all of the cluster
  std::vector<std::vector<simulate::SampleSize>> batches = {};  // [batches, global samples]
  std::vector<std::string> frozen = {};                         // modules that do not train
  config::RecomputePlan recompute = config::RecomputePlan::kFull;
  bool sequence_parallel = true;
  bool shard_optimizer = true;       // over the replicas of each module
  GivenDegrees given = {};           // of the backbone, for LoongForge's methods
  double capacity_tokens = 0;        // of a packed sequence; 0: any microbatch
  std::optional<Bytes> memory = {};  // of a device; null: the cluster's, after its reserve
  std::shared_ptr<const cost::CostSource> measured =
      {};  // of layers and reductions; null: the cluster's
};

/// Cost tables of a model for the published searches: throughput by the shape of a microbatch for
/// each tensor-parallel degree inside a node, bytes, links, and the batches.
///
/// Encoder and projectors count as one module, and embedding and head as part of the backbone,
/// because the published objectives take all layers as equal. Several encoders, of images and of
/// sound, are one module end to end; a sample with more of one and less of the other counts by
/// FLOPs. A tile is a mean item of the batches; sequences have the length with the batches'
/// attention. Encoder heads are padded to a multiple of tp. Logits, and the activations of one
/// layer, are counted once. Degrees that were not measured are left out.
///
/// errors: Fault::kInput naming module or number: no backbone, no encoder, a module to freeze that
///         the model does not have, no batch, batches of different sizes, a module without any
///         measured degree
[[nodiscard]] TrainingProblem problem_of_model(const config::ModuleGraph& model,
                                               const config::Cluster& cluster,
                                               const ModelSetting& setting);

/// Batches of the reference mixture.
[[nodiscard]] std::vector<std::vector<simulate::SampleSize>> draw_mixture_batches(
    std::int64_t batches, std::int64_t global_samples, std::uint64_t seed);

}  // namespace tributary::studies
