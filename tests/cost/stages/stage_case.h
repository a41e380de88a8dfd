#pragma once

#include <numeric>

#include "cost/stages/stage_costs.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::cost {

// Sizes of a block that closed forms are written in.
inline constexpr double kWidth = 1024;
inline constexpr double kHeadWidth = 64;
inline constexpr double kHeads = 16;
inline constexpr double kKvHeads = 8;
inline constexpr double kMlp = 4096;
inline constexpr double kVocab = 32'768;
inline constexpr double kTokens = 4096;
inline constexpr double kLink = 1e9;  // B/s: slow enough to wait for
inline constexpr double kMlpWeights = 3 * kWidth * kMlp;
inline constexpr double kAttentionWeights = kWidth * (2 * kHeads + 2 * kKvHeads) * kHeadWidth;
inline constexpr double kNorms = 2 * kWidth;
inline constexpr double kWeights = kAttentionWeights + kMlpWeights + kNorms;

inline config::LayerShape block_shape() {
  return {.kind = config::LayerKind::kBlock,
          .input_width = 1024,
          .width = 1024,
          .heads = 16,
          .kv_heads = 8,
          .head_width = 64,
          .mlp_width = 4096};
}
inline config::LayerShape mixture_shape(std::int64_t experts) {
  config::LayerShape shape = block_shape();
  shape.experts = experts;
  shape.experts_per_token = 2;
  return shape;
}
inline config::LayerShape table_shape(config::LayerKind kind, bool tied = false) {
  return {.kind = kind, .input_width = 1024, .width = 1024, .vocab = 32'768, .tied = tied};
}

/// Some equal blocks and nothing else.
inline config::ModuleGraph model_of(const config::LayerShape& block, std::int64_t layers) {
  return {.name = "blocks",
          .modules = {{.name = "backbone", .layers = {{.shape = block, .layers = layers}}}},
          .edges = {}};
}

/// One node of 64 devices, whose links take bytes / kLink and nothing more; overlap is free.
inline config::Cluster one_node() {
  config::Cluster cluster{.name = "one node"};
  cluster.devices = 64;
  cluster.device.name = "test";
  cluster.device.matrix_flops_per_s = 1e15;
  cluster.device.memory_bytes_per_s = 1e13;
  cluster.device.memory = {std::int64_t{1} << 36};
  cluster.device.overlap_slowdown = 1;
  cluster.levels = {{.name = "node", .ranks = 64, .bytes_per_s = kLink}};
  return cluster;
}

/// A backbone on the first ranks; `layers` over the stages of its mesh.
inline config::Plan plan_of(const config::MeshShape& mesh, std::int64_t layers = 4) {
  config::ModulePlan backbone{.name = "backbone", .mesh = mesh};
  backbone.ranks.resize(static_cast<std::size_t>(mesh.world()));
  std::iota(backbone.ranks.begin(), backbone.ranks.end(), 0);
  for (std::int64_t stage = 0; stage < mesh.pp; ++stage)
    backbone.stages.push_back({.embed = stage == 0,
                               .first = stage * layers / mesh.pp,
                               .layers = (stage + 1) * layers / mesh.pp - stage * layers / mesh.pp,
                               .head = stage + 1 == mesh.pp});
  config::Plan plan{.modules = {backbone}, .edges = {}, .batch = {}, .predicted = {}};
  plan.batch.capacity_tokens = {static_cast<std::int64_t>(kTokens)};
  return plan;
}

inline LayerStageCosts costs_of(const config::Plan& plan, const config::ModuleGraph& model,
                                const LayerExecution& execution = {},
                                const config::Cluster& cluster = one_node()) {
  return {plan, model, cluster, schedule::pipeline_of(plan), execution};
}

inline constexpr MicrobatchShape kMicrobatch{
    .backbone = {.tokens = kTokens, .squared_tokens = kTokens * kTokens}, .encoder = {}};

// What n ranks of one node take over a full buffer.
inline double gather_ns(double ranks, double bytes) {
  return 1e9 * (ranks - 1) / ranks * bytes / kLink;
}
inline double sum_ns(double ranks, double bytes) { return 2 * gather_ns(ranks, bytes); }

}  // namespace tributary::cost
