#pragma once

#include "simulate/simulate.h"

namespace tributary::simulate {

/// Costs in proportion to tokens and patches, the same on every stage.
class TableCosts final : public cost::StageCosts {
 public:
  explicit TableCosts(bool has_encoder) : has_encoder_(has_encoder) {}
  [[nodiscard]] cost::StageCost cost(int module, int,
                                     const cost::MicrobatchShape& shape) const override {
    const bool is_encoder = has_encoder_ && module == 1;
    const double size = size_of(module, shape);
    const auto times = [size](double each) {
      return Nanoseconds{static_cast<std::int64_t>(each * size)};
    };
    cost::StageCost cost{.forward = times(10),
                         .input_gradient = times(is_encoder ? 0 : 12),
                         .weight_gradient = times(is_encoder ? 0 : 8),
                         .forward_exposed = times(1),
                         .gradient_exposed = times(is_encoder ? 0 : 2)};
    cost.kept = {static_cast<std::int64_t>(100 * size)};
    cost.boundary = {static_cast<std::int64_t>(64 * size)};
    return cost;
  }
  [[nodiscard]] cost::StageFlops flops(int module, int,
                                       const cost::MicrobatchShape& shape) const override {
    return {.all = {.causal = 1e6 * size_of(module, shape)}};
  }
  [[nodiscard]] cost::StageState state(int, int) const override {
    return {.parameters = {1 << 20},
            .gradients = {1 << 20},
            .optimizer = {6 << 20},
            .gathered = {},
            .reduction = {50'000},
            .optimizer_step = {20'000}};
  }

 private:
  [[nodiscard]] double size_of(int module, const cost::MicrobatchShape& shape) const {
    return has_encoder_ && module == 1 ? shape.encoder.tokens : shape.backbone.tokens;
  }
  bool has_encoder_;
};

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

/// The bucket of each sample where they are dealt in turns.
inline std::vector<std::int32_t> in_turns(std::size_t samples, std::size_t buckets) {
  std::vector<std::int32_t> bucket_of;
  for (std::size_t i = 0; i < samples; ++i)
    bucket_of.push_back(static_cast<std::int32_t>(i % buckets));
  return bucket_of;
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

}  // namespace tributary::simulate
