#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "studies/dflop/problem_3d.h"
#include "studies/methods/all_methods.h"
#include "studies/methods/batch_runner.h"

namespace tributary::studies {

/// Seconds of one batch under the present plan.
using BatchCost = std::function<double(std::size_t batch)>;
/// The same, or any value from `limit` on where the batch takes at least that.
using RacedCost = std::function<double(std::size_t batch, double limit)>;

/// A plan as text, and its trainer's form if it has one.
struct OfferedPlan {
  // NOLINTNEXTLINE(google-explicit-constructor): most plans have only a text
  OfferedPlan(std::string told, std::optional<TrainerForm> held = {})
      : text(std::move(told)), form(std::move(held)) {}

  std::string text;
  std::optional<TrainerForm> form;
};

/// The encoder at the backbone's degrees on its first stage.
[[nodiscard]] TrainerForm inline_form(const Degrees& backbone, std::int64_t rounds);

/// The encoder on the backbone's ranks, each copy of it on `tp` of them.
[[nodiscard]] TrainerForm colocated_form(const Degrees& backbone, std::int64_t rounds,
                                         std::int64_t tp);

/// The encoder on the ranks of the backbone's first stage, each copy of it on `tp` of them, in
/// `passes` among those of the stage.
[[nodiscard]] TrainerForm first_stage_form(const Degrees& backbone, std::int64_t rounds,
                                           std::int64_t tp, std::int64_t passes);

/// Keeps the best plan of a method while it goes through its space; while none fits, the one that
/// needs the least memory.
class BestPlan {
 public:
  explicit BestPlan(BatchRunner& runner);

  /// Whether a plan that needs `bytes` on a device fits; `describe` gives its text.
  template <class Describe>
  [[nodiscard]] bool admits(double bytes, const std::string& of, const Describe& describe) {
    if (bytes <= runner_.problem().costs.memory_bytes) return true;
    keep_least(min_, bytes, [&] { return MemoryNeed{bytes, describe(), of}; });
    return false;
  }
  /// Notes a plan that does not fit.
  void refuse(MemoryNeed need) { keep_least(min_, std::move(need)); }

  /// Judges a plan by the mean of the batches; on a tie the earlier plan stays.
  void offer(const OfferedPlan& plan, const BatchCost& cost);
  /// As offer(), but stops once the batches timed so far plus `min` (a lower bound for each other
  /// batch) cannot beat the best plan.
  void race(const OfferedPlan& plan, const RacedCost& cost, std::span<const double> min);
  [[nodiscard]] double seconds() const { return seconds_; }
  /// Notes that a budget ran out before the space did.
  void truncate() { is_truncated_ = true; }
  /// The best plan. Without one: what binds, and by how much (the memory of the leanest plan), or
  /// that no plan has the method's `form`.
  [[nodiscard]] PipelineAnswer answer(const std::string& form) const;

 private:
  [[nodiscard]] std::string explain(const std::string& form) const;

  BatchRunner& runner_;
  double seconds_;
  DeviceSeconds counted_;  // over all batches under the best plan
  std::optional<OfferedPlan> plan_;
  MemoryNeed min_;
  std::int64_t evaluations_ = 0;
  bool is_truncated_ = false;
};

/// The divisors of a replica's samples; with packed sequences the number that fills them.
[[nodiscard]] std::vector<std::int64_t> rounds_of(const TrainingProblem& problem,
                                                  std::int64_t replicas);

/// Visits every plan of the backbone on all devices with every number of rounds.
void for_each_backbone(
    const TrainingProblem& problem,
    const std::function<void(const Degrees& backbone, std::int64_t rounds)>& visit);

/// Bytes that a stage of the backbone keeps at the mean sample with `depth` microbatches in flight;
/// null: as many as 1F1B has.
[[nodiscard]] double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                    std::int64_t rounds, double depth);
[[nodiscard]] double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                    std::int64_t rounds);
/// The same for a module that keeps activations `depth` times, of `samples` samples each.
[[nodiscard]] double encoder_bytes(const TrainingProblem& problem, const Degrees& degrees,
                                   double depth, double samples);

[[nodiscard]] bool has_degree(const ModuleCosts& module, std::int64_t tp);

// Forms of plans, for `BestPlan::answer`.
[[nodiscard]] std::string form_of_backbone(const TrainingProblem& problem);  // on all devices
[[nodiscard]] std::string form_of_two(const TrainingProblem& problem);       // on their own devices

/// The name of the fullest of `stages` stages that have both modules.
[[nodiscard]] std::string fullest_of_both(const TrainingProblem& problem, std::int64_t stages);

/// For modules on their own devices, the need of the one further from fitting.
[[nodiscard]] MemoryNeed worse_of(const MemoryNeed& encoder, const MemoryNeed& backbone);

/// One batch with the modules on their own devices, in one pipeline: each round's samples go to the
/// encoder replicas longest first, its features to the replicas of the backbone.
///
/// `moves_small_out`: the round with the least encoder work comes first, the next smallest ones
/// last. A batch that takes `limit` seconds may stop: the result is then at least `limit`.
[[nodiscard]] double run_separate(BatchRunner& runner, std::size_t batch, const Plan3d& plan,
                                  Deal how, bool moves_small_out,
                                  double limit = std::numeric_limits<double>::infinity());

/// Reports the leanest plan of the published search's space when none fits.
void refuse_leanest(const TrainingProblem& problem, BestPlan& best);

// Families of plans that `best_of_methods` offers to the best so far.
void offer_balanced_phases(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best);
void offer_balanced_shards(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best);
void offer_balanced_bubbles(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best);
void offer_balanced_first_stage(const TrainingProblem& problem, BatchRunner& runner,
                                BestPlan& best);
void offer_balanced_nested(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best);
void offer_balanced_segments(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best);
void offer_balanced_separate(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best);

// The methods, by file.
[[nodiscard]] PipelineAnswer solve_megatron_uniform(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_megatron_vpp(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_megatron_first_stage(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_megatron_encoder_stage(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_pytorch_3d(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_pipeweaver(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_megascale_omni(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_bigmac(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_fsdp(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_orchmllm(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_disttrain_microbatch(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_disttrain_batch_serial(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_disttrain_batch_double(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_disttrain_batch_double_lpt(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_dflop(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_dflop_fewest(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_dflop_without_scheduler(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_flowtrain(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_flowtrain_without_pool(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_flowtrain_without_allocator(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_flowtrain_without_scheduler(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_optimus(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_loongforge_1(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_loongforge_2(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_loongforge_3(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_backbone_alone(const TrainingProblem& problem);
[[nodiscard]] PipelineAnswer solve_best_of_methods(const TrainingProblem& problem);

}  // namespace tributary::studies
