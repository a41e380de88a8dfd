#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/problem/plan_choice.h"

namespace tributary::plan {

/// Costs of the units of one chain, from LayerStageCosts. Equal units form a class, so a stage is a
/// count of each class, and a microbatch is priced once for all stages.
///
/// owns: all it needs
class ChainCosts {
 public:
  /// `choice` says which encoders are inline; only this chain's mesh matters, and its pp is
  /// ignored. `chain` is the index of a separate encoder; the backbone comes after all of them.
  /// Where the model is cut into stages, shards are gathered and reduced once a step.
  ChainCosts(const PlanningProblem& problem, const PlanChoice& choice, std::size_t chain,
             bool is_cut);

  [[nodiscard]] std::int64_t units() const { return std::ssize(class_of_); }
  [[nodiscard]] std::size_t classes() const { return first_of_.size(); }
  [[nodiscard]] int class_of(std::int64_t unit) const { return class_of_[unit]; }
  /// Whether units work on a medium; the backbone's include those of inline encoders.
  [[nodiscard]] bool works_on(cost::Media media) const { return costs_->works_on(module_, media); }
  [[nodiscard]] cost::StageCost cost(std::size_t unit_class,
                                     const cost::MicrobatchShape& shape) const;
  [[nodiscard]] const cost::StageState& state(std::size_t unit_class) const {
    return states_[unit_class];
  }
  /// Host time of a microbatch on each stage, whatever its units; their costs do not include it.
  [[nodiscard]] Nanoseconds each_stage() const { return each_stage_; }
  /// The number of units of each class in [first, end).
  [[nodiscard]] std::vector<std::int64_t> count(std::int64_t first, std::int64_t end) const;

 private:
  std::unique_ptr<cost::LayerStageCosts> costs_;
  int module_ = 0;  // of the pipeline
  Nanoseconds each_stage_;
  std::vector<int> class_of_;             // [units]
  std::vector<std::int64_t> first_of_;    // [classes] the unit that represents it
  std::vector<cost::StageState> states_;  // [classes]
};

/// The state and the per-step work of a rank that holds all units of a chain on one stage.
[[nodiscard]] cost::StageState state_on_one_stage(const PlanningProblem& problem,
                                                  const PlanChoice& choice, std::size_t chain);

/// The cost of a stage with counts[c] units of class c; its last unit is of `last_class`.
[[nodiscard]] cost::StageCost cost_of_stage(const ChainCosts& chain,
                                            std::span<const cost::StageCost> class_costs,
                                            std::span<const std::int64_t> counts, int last_class);

}  // namespace tributary::plan
