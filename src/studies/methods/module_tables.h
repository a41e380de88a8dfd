#pragma once

#include <memory>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "cost/module_cost.h"
#include "studies/methods/problem_of_model.h"

namespace tributary::studies {

/// A tower with its projectors, and its part of a tile or token.
struct ModulePart {
  std::vector<const config::ModuleNode*> nodes;
  bool of_sound = false;
  double unit = 1;      // patches, positions of sound, or tokens
  double attended = 1;  // length for attention
};

[[nodiscard]] bool is_projector(const config::ModuleNode& node);

/// Values that the backbone gets for a tile.
[[nodiscard]] double features_of_tile(const ModulePart& part);

/// Costs of the two modules at degrees and shapes.
class ModuleTables {
 public:
  /// keeps references to both
  ModuleTables(const config::Cluster& cluster, const ModelSetting& setting)
      : cluster_(cluster),
        setting_(setting),
        costs_(setting.measured ? setting.measured
                                : std::make_shared<const cost::ClusterCosts>(cluster)) {}

  /// The table of parts that run one after the other, for shapes from `min` to `max`.
  ///
  /// units:  tiles or tokens; `mean` for a sample
  /// errors: Fault::kInput naming a module of which no degree was measured
  [[nodiscard]] ModuleCosts make(const std::vector<ModulePart>& parts, bool upstream_trains,
                                 double mean, double min, double max) const;

  /// Costs of `shape` tiles or tokens.
  [[nodiscard]] cost::ModuleCost cost_of(const ModulePart& part, double shape, std::int64_t tp,
                                         bool upstream_trains) const;

  /// The same at the smallest tp with known costs: FLOPs, and the fraction of the time that grows
  /// with the squares of lengths, which measured costs do not tell.
  [[nodiscard]] double flops_of(const ModulePart& part, double shape) const;
  [[nodiscard]] double attention_share(const ModulePart& part, double shape) const;

  [[nodiscard]] bool trains(const config::ModuleNode& node) const;
  /// Bytes that a process holds besides tensors.
  [[nodiscard]] Bytes process() const { return costs_->process(); }
  /// Bytes of a value that is sent.
  [[nodiscard]] double value_bytes() const { return costs_->value_bytes(); }

 private:
  [[nodiscard]] cost::ModuleCost cost_of(const ModulePart& part, const cost::PassShape& pass,
                                         std::int64_t tp, bool upstream_trains) const;
  [[nodiscard]] std::int64_t min_tp(const ModulePart& part) const;
  [[noreturn]] void refuse_unknown(const std::string& module) const;
  [[nodiscard]] bool has_costs(const std::vector<ModulePart>& parts, std::int64_t tp) const;
  [[nodiscard]] double kept_of(const std::vector<ModulePart>& parts, const cost::ModuleCost& cost,
                               double mean, std::int64_t layers) const;

  const config::Cluster& cluster_;
  const ModelSetting& setting_;
  std::shared_ptr<const cost::CostSource> costs_;
};

}  // namespace tributary::studies
