#pragma once

#include <memory>
#include <vector>

#include "config/artifact/cluster.h"
#include "cost/stages/stage_costs.h"
#include "simulate/samples/deal_samples.h"
#include "simulate/simai/simai_workload.h"

namespace tributary::simulate {

/// The plan in a workload's header: one module with tp innermost, then the replicas, of which ep
/// neighbours share experts, then the stages.
///
/// shape: a virtual stage for each chunk of each stage, in the interleaved order where there are
///        several
[[nodiscard]] config::Plan plan_of(const SimaiWorkload& workload);

/// Costs from the rows of a workload. They are the rows of one stage, and every stage has them, but
/// only the first stage has `embedding_layer`. Memory is unknown: only messages have bytes, and
/// there are no FLOPs.
///
/// owns:   tables of each distinct microbatch; it does not keep the workload
/// errors: Fault::kInput when the cluster has too few devices, or all collectives take too long
class WorkloadCosts final : public cost::StageCosts {
 public:
  WorkloadCosts(const SimaiWorkload& workload, const config::Plan& plan,
                const config::Cluster& cluster);
  /// microbatch: its number, as in the shapes of shapes()
  [[nodiscard]] cost::StageCost cost(int module, int virtual_stage,
                                     const cost::MicrobatchShape& shape) const override;
  [[nodiscard]] cost::StageState state(int module, int virtual_stage) const override;
  [[nodiscard]] cost::ModuleRanks ranks(int module) const override;

  /// The microbatches of any replica; equal neighbours have equal shapes.
  [[nodiscard]] StepShapes shapes() const;

 private:
  struct Tables {
    std::vector<std::vector<cost::StageCost>> costs;  // [different microbatches][virtual stages]
    std::vector<cost::StageState> states;             // [virtual stages]
    std::vector<int> microbatch;                      // [microbatches] index of its costs
    cost::ModuleRanks ranks;
  };
  std::shared_ptr<const Tables> tables_;
};

/// Cuts values into `parts` non-empty ranges, at the ends nearest to equal sums.
///
/// shape: returns [parts + 1], ascending, 0 first; ties take the earlier end
/// errors: Fault::kBug when there are fewer values than parts
[[nodiscard]] std::vector<std::int64_t> cut_evenly(const std::vector<double>& values,
                                                   std::int64_t parts);

}  // namespace tributary::simulate
