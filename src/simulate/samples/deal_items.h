#pragma once

#include <vector>

#include "config/plan/plan.h"
#include "cost/stages/stage_costs.h"
#include "schedule/deal_media.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::simulate {

/// Balancing compares FLOPs as times at 1 TFLOP/s.
inline constexpr double kNanosecondsPerFlop = 1e-3;

/// Deals the images and clips of steps to encoders with meshes of their own, by the code that the
/// trainer deals them with.
///
/// owns: keeps references to its arguments
class ItemDealer {
 public:
  ItemDealer(const config::Plan& plan, const schedule::Pipeline& pipeline,
             const cost::StageCosts& costs);

  /// Whether the trainer deals items to the module: it is an encoder of patches with a mesh of its
  /// own.
  [[nodiscard]] bool deals_to(int module) const;

  /// What the replicas of an encoder have in each of their passes. A replica of several seats,
  /// which share its sequences, takes as long as its costliest one.
  ///
  /// shape: rounds as schedule::list_media gives them -> returns [replicas][microbatches]; those
  ///        after the passes of the module, or without a round, are empty
  [[nodiscard]] std::vector<std::vector<cost::MicrobatchShape>> deal(
      int module, std::vector<schedule::MediaRound> rounds, std::size_t microbatches) const;

 private:
  [[nodiscard]] std::int64_t cost_of(const Grid& grid) const;

  const config::Plan& plan_;
  const schedule::Pipeline& pipeline_;
  const cost::StageCosts& costs_;
};

}  // namespace tributary::simulate
