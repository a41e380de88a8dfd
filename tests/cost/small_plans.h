#pragma once

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"

namespace tributary::cost {

inline config::Cluster small_cluster(std::int64_t devices) {
  config::Cluster cluster{.name = "test"};
  cluster.devices = devices;
  cluster.device.name = "test";
  cluster.device.matrix_flops_per_s = 1e14;
  cluster.device.memory_bytes_per_s = 1e12;
  cluster.device.memory = {std::int64_t{1} << 34};
  cluster.levels = {
      {.name = "node", .ranks = 4, .bytes_per_s = 100e9, .message_start_s = 1e-6},
      {.name = "all", .ranks = devices, .bytes_per_s = 10e9, .message_start_s = 2e-6}};
  return cluster;
}

inline config::ModuleGraph small_model(std::int64_t layers, bool has_vision) {
  config::LayerShape block{.kind = config::LayerKind::kBlock,
                           .input_width = 1024,
                           .width = 1024,
                           .heads = 16,
                           .kv_heads = 8,
                           .head_width = 64,
                           .mlp_width = 4096};
  config::LayerShape embedding{
      .kind = config::LayerKind::kEmbedding, .input_width = 1024, .width = 1024, .vocab = 32'000};
  config::LayerShape head = embedding;
  head.kind = config::LayerKind::kHead;
  config::LayerShape vision = block;
  vision.causal = false;
  config::ModuleGraph model{.name = "small",
                            .modules = {{.name = "backbone",
                                         .layers = {{.shape = embedding, .layers = 1},
                                                    {.shape = block, .layers = layers},
                                                    {.shape = head, .layers = 1}}}},
                            .edges = {}};
  if (!has_vision) return model;
  model.modules.push_back({.name = "vision", .layers = {{.shape = vision, .layers = 2}}});
  model.edges = {{.from = "vision", .to = "backbone"}};
  return model;
}

/// A backbone of two stages and two replicas.
inline config::Plan text_plan() {
  return config::parse_plan(R"({
    "format": "tributary.plan/1",
    "modules": {"backbone": {"ranks": "0-3", "mesh": {"pp": 2, "dp_shard": 2},
                             "stages": [["embed", "0-1"], ["2-3", "head"]]}},
    "batch": {"global_samples": 64, "microbatches": 8, "capacity_tokens": 1000}})",
                            "plan.json");
}

/// The same behind a frozen encoder of four replicas.
inline config::Plan vision_plan() {
  return config::parse_plan(R"({
    "format": "tributary.plan/1",
    "modules": {"vision": {"ranks": "4-7", "mesh": {"dp_shard": 4}, "train": "frozen"},
                "backbone": {"ranks": "0-3", "mesh": {"pp": 2, "dp_shard": 2},
                             "stages": [["embed", "0-1"], ["2-3", "head"]]}},
    "edges": [{"from": "vision", "to": "backbone"}],
    "batch": {"global_samples": 64, "microbatches": 8, "capacity_tokens": 1000,
              "balance": "lpt_2d"}})",
                            "plan.json");
}

}  // namespace tributary::cost
