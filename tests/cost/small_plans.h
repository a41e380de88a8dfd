#pragma once

#include "config/cluster/cluster.h"
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
