#pragma once

#include <vector>

#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// The closed form's estimate of a step, for one chain or several.
struct StepEstimate {
  double lane = 0;  // [ns] of the busiest lane for one microbatch
  double fill = 0;  // [ns] before the last stage starts and after the first one ends
  double tail = 0;  // [ns] reductions and the optimizer
  double rounds = 1;
  std::int64_t stages = 1;
  double memory_share = 0;  // of the fullest stage, relative to the limit of a plan
  double held_share = 0;    // the part of it that is held even when no pass keeps anything
  double peak_share = 0;    // of a pass of a colocated encoder, on top of what it keeps

  /// Below the first value a plan surely fits, above the second it surely does not.
  static constexpr double kSurelyFits = 0.85;
  static constexpr double kMayFit = 1.3;
  [[nodiscard]] bool fits(double caution = 1) const {
    return caution * memory_share <= kSurelyFits;
  }
  [[nodiscard]] bool may_fit(double caution = 1) const { return caution * memory_share <= kMayFit; }

  [[nodiscard]] double value() const { return rounds * lane + fill + tail; }
};

/// Estimates steps by closed forms over mean microbatches and the best cut of the layers. They only
/// serve to rank choices.
///
/// source: docs/theory/planning.md, "Closed forms of a pipeline"
class StepEstimator {
 public:
  StepEstimator(const PlanningProblem& problem, ChainTables& tables)
      : problem_(problem), tables_(tables), costs_(problem.costs()) {}

  /// The backbone with its inline encoders, without encoders on ranks of their own.
  [[nodiscard]] StepEstimate backbone(const ChainForm& form, const PlanChoice& choice);

  /// An encoder on ranks of its own; `stages_behind`: the stages of the backbone.
  [[nodiscard]] StepEstimate encoder(const ChainForm& form, const ChainChoice& own,
                                     std::int64_t microbatches, std::int64_t stages_behind);
  /// An encoder on the backbone's ranks: its work before and after the backbone's microbatches.
  [[nodiscard]] StepEstimate colocated(const ChainForm& form, const ChainChoice& own,
                                       const PlanChoice& choice);
  /// As encoder(), without reductions and optimizer.
  [[nodiscard]] StepEstimate encoder_rounds(const ChainForm& form, const ChainChoice& own,
                                            std::int64_t microbatches, std::int64_t stages_behind);

 private:
  [[nodiscard]] double collective(config::CollectiveOp op, std::int64_t ranks, std::int64_t stride,
                                  double bytes) const;
  [[nodiscard]] double exposed(double transfer, double compute) const;
  /// Time [ns] for each microbatch in gathers and reductions of shards that compute does not hide;
  /// 0 for a model on several stages, which gathers once a step and keeps parameters whole.
  [[nodiscard]] double shards_exposed(const ChainForm& form, const config::MeshShape& mesh,
                                      std::int64_t microbatches, bool is_cut) const;
  /// Parameters [bytes] that have gradients.
  [[nodiscard]] double trained_parameters(const ChainForm& form);
  [[nodiscard]] double tail_of(const ChainForm& form, const config::MeshShape& mesh, bool is_cut);
  struct Depth {
    double first = 1;    // microbatches that the first stage keeps
    double samples = 1;  // in each microbatch
    std::int64_t chunks = 1;
  };
  /// Sets the shares of memory: the max of the first and the last stage of a cut by time, with the
  /// largest sample in one of the kept microbatches.
  void set_memory(const ChainForm& form, const config::MeshShape& mesh, const ChainWork& work,
                  const Depth& depth, StepEstimate& estimate);

  const PlanningProblem& problem_;
  ChainTables& tables_;
  std::shared_ptr<const cost::CostSource> costs_;
};

/// Combines both, on ranks of their own.
[[nodiscard]] StepEstimate combined(const StepEstimate& backbone, const StepEstimate& encoder);
/// Combines both on the same ranks, one after the other.
[[nodiscard]] StepEstimate in_turns(const StepEstimate& backbone, const StepEstimate& encoder);

}  // namespace tributary::plan
