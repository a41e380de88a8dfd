#pragma once

#include <vector>

#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// What the closed form says of a step, chain by chain.
struct StepEstimate {
  double lane = 0;  // [ns] of the busiest lane in one round
  double fill = 0;  // [ns] until the last stage works, and after the first ends
  double tail = 0;  // [ns] reduction and optimizer
  double rounds = 1;
  std::int64_t stages = 1;
  double memory_share = 0;  // of the fullest stage, of what a plan may hold
  double held_share = 0;    // of it while no pass keeps anything
  double peak_share = 0;    // of a pass of a colocated encoder, more than what it keeps

  /// The closed form is this far off: below the first a plan fits, above the second it does not.
  static constexpr double kSurelyFits = 0.85;
  static constexpr double kMayFit = 1.3;
  [[nodiscard]] bool fits(double caution = 1) const {
    return caution * memory_share <= kSurelyFits;
  }
  [[nodiscard]] bool may_fit(double caution = 1) const { return caution * memory_share <= kMayFit; }

  [[nodiscard]] double value() const { return rounds * lane + fill + tail; }
};

/// Steps by closed forms over mean microbatches and the best cut of the layers: for ranking alone.
///
/// source: docs/theory/planning.md, "Closed forms of a pipeline"
class StepEstimator {
 public:
  StepEstimator(const PlanningProblem& problem, ChainTables& tables)
      : problem_(problem), tables_(tables), costs_(problem.costs()) {}

  /// The backbone with what is inline, without encoders on ranks of their own.
  [[nodiscard]] StepEstimate backbone(const ChainForm& form, const PlanChoice& choice);

  /// An encoder on ranks of its own; `stages_behind` of the backbone.
  [[nodiscard]] StepEstimate encoder(const ChainForm& form, const ChainChoice& own,
                                     std::int64_t microbatches, std::int64_t stages_behind);
  /// An encoder on the backbone's ranks: what comes before and after the rounds.
  [[nodiscard]] StepEstimate colocated(const ChainForm& form, const ChainChoice& own,
                                       const PlanChoice& choice);
  /// The same as encoder() without its tail.
  [[nodiscard]] StepEstimate encoder_rounds(const ChainForm& form, const ChainChoice& own,
                                            std::int64_t microbatches, std::int64_t stages_behind);

 private:
  [[nodiscard]] double collective(config::CollectiveOp op, std::int64_t ranks, std::int64_t stride,
                                  double bytes) const;
  [[nodiscard]] double exposed(double transfer, double compute) const;
  /// Gathers and reductions of shards in one microbatch that nothing hides; of a model on several
  /// stages there are none: shards are gathered once a step, and stay whole.
  [[nodiscard]] double shards_exposed(const ChainForm& form, const config::MeshShape& mesh,
                                      std::int64_t microbatches, bool is_cut) const;
  /// [bytes] of what has gradients.
  [[nodiscard]] double trained_parameters(const ChainForm& form);
  [[nodiscard]] double tail_of(const ChainForm& form, const config::MeshShape& mesh, bool is_cut);
  struct Depth {
    double first = 1;    // microbatches that the first stage keeps
    double samples = 1;  // in a microbatch
    std::int64_t chunks = 1;
  };
  /// Sets the shares of memory: of the first and the last stage of a cut by time, the largest
  /// sample in one of the microbatches that are kept.
  void set_memory(const ChainForm& form, const config::MeshShape& mesh, const ChainWork& work,
                  const Depth& depth, StepEstimate& estimate);

  const PlanningProblem& problem_;
  ChainTables& tables_;
  std::shared_ptr<const cost::CostSource> costs_;
};

/// The two put together, on ranks of their own.
[[nodiscard]] StepEstimate combined(const StepEstimate& backbone, const StepEstimate& encoder);
/// On the same ranks, one after the other.
[[nodiscard]] StepEstimate in_turns(const StepEstimate& backbone, const StepEstimate& encoder);

}  // namespace tributary::plan
