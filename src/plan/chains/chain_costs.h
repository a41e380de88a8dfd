#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/problem/plan_choice.h"

namespace tributary::plan {

/// Costs of the units of one chain, by LayerStageCosts: units that are alike are one class, so that
/// a stage is counts of classes, and a microbatch is priced once for all stages.
///
/// owns: all it needs
class ChainCosts {
 public:
  /// `choice` says which encoders are inline; of its meshes the chain's own counts, with pp left
  /// out. `chain` is the index of a separate encoder, or of the backbone behind them all. Where the
  /// model is cut into stages, shards are gathered and reduced once a step.
  ChainCosts(const PlanningProblem& problem, const PlanChoice& choice, std::size_t chain,
             bool is_cut);

  [[nodiscard]] std::int64_t units() const { return std::ssize(class_of_); }
  [[nodiscard]] std::size_t classes() const { return first_of_.size(); }
  [[nodiscard]] int class_of(std::int64_t unit) const { return class_of_[unit]; }
  /// Whether units work on a medium: of the backbone those with what is inline.
  [[nodiscard]] bool works_on(cost::Media media) const { return costs_->works_on(module_, media); }
  [[nodiscard]] cost::StageCost cost(std::size_t unit_class,
                                     const cost::MicrobatchShape& shape) const;
  [[nodiscard]] const cost::StageState& state(std::size_t unit_class) const {
    return states_[unit_class];
  }
  /// Host time of a microbatch on each stage, whatever its units; not in their costs.
  [[nodiscard]] Nanoseconds each_stage() const { return each_stage_; }
  /// Units of each class in [first, end).
  [[nodiscard]] std::vector<std::int64_t> count(std::int64_t first, std::int64_t end) const;

 private:
  std::unique_ptr<cost::LayerStageCosts> costs_;
  int module_ = 0;  // of the pipeline
  Nanoseconds each_stage_;
  std::vector<int> class_of_;             // [units]
  std::vector<std::int64_t> first_of_;    // [classes] the unit that stands for it
  std::vector<cost::StageState> states_;  // [classes]
};

/// What a rank of a chain holds, and does once a step, where all units are on one stage.
[[nodiscard]] cost::StageState state_on_one_stage(const PlanningProblem& problem,
                                                  const PlanChoice& choice, std::size_t chain);

/// What a stage of a chain costs whose units are `counts` of the classes, the last of them
/// `last_class`.
[[nodiscard]] cost::StageCost cost_of_stage(const ChainCosts& chain,
                                            std::span<const cost::StageCost> class_costs,
                                            std::span<const std::int64_t> counts, int last_class);

}  // namespace tributary::plan
