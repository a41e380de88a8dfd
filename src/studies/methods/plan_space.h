#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "studies/dflop/memory_need.h"
#include "studies/methods/batch_runner.h"
#include "studies/methods/pipeline_baselines.h"

namespace tributary::studies {

/// Seconds of one batch under the plan at hand.
using BatchCost = std::function<double(std::size_t batch)>;
/// The same, or any seconds from `limit` on where the batch takes that long.
using RacedCost = std::function<double(std::size_t batch, double limit)>;

/// A plan as it is told, and the trainer's form of it where there is one.
struct OfferedPlan {
  // NOLINTNEXTLINE(google-explicit-constructor): most plans have a text alone
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

/// Keeps the best plan of a method while it goes through its space, and while none fits the one
/// that is least short of memory.
class BestPlan {
 public:
  explicit BestPlan(BatchRunner& runner);

  /// Whether a plan fits that asks so many bytes of a device; `describe` gives its text.
  template <class Describe>
  [[nodiscard]] bool admits(double bytes, const std::string& of, const Describe& describe) {
    if (bytes <= runner_.problem().costs.memory_bytes) return true;
    keep_least(least_, bytes, [&] { return MemoryNeed{bytes, describe(), of}; });
    return false;
  }
  /// A plan that does not fit.
  void refuse(MemoryNeed need) { keep_least(least_, std::move(need)); }

  /// Judges a plan by the mean of the batches; later ones must be better to replace it.
  void offer(const OfferedPlan& plan, const BatchCost& cost);
  /// The same, given up where the batches so far, with the least seconds [batches] of the others,
  /// leave nothing better.
  void race(const OfferedPlan& plan, const RacedCost& cost, std::span<const double> least);
  [[nodiscard]] double seconds() const { return seconds_; }
  /// Notes that a budget ended the search before the space did.
  void truncate() { is_truncated_ = true; }
  /// The best plan; without one what binds, and by how much: the memory of the leanest plan, or
  /// that no plan has the method's `form`.
  [[nodiscard]] PipelineAnswer answer(const std::string& form) const;

 private:
  [[nodiscard]] std::string explain(const std::string& form) const;

  BatchRunner& runner_;
  double seconds_;
  DeviceSeconds counted_;  // of all batches under the best plan
  std::optional<OfferedPlan> plan_;
  MemoryNeed least_;
  std::int64_t evaluations_ = 0;
  bool is_truncated_ = false;
};

/// The numbers that divide the samples of a replica; with packed sequences the one that fills them.
[[nodiscard]] std::vector<std::int64_t> rounds_of(const TrainingProblem& problem,
                                                  std::int64_t replicas);

/// Every plan of the backbone on all devices, and every number of rounds.
void for_each_backbone(
    const TrainingProblem& problem,
    const std::function<void(const Degrees& backbone, std::int64_t rounds)>& visit);

/// Bytes that a stage of the backbone keeps at the mean sample, with `depth` microbatches in
/// flight; without it as many as 1F1B has.
[[nodiscard]] double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                    std::int64_t rounds, double depth);
[[nodiscard]] double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                    std::int64_t rounds);
/// The same of a module that keeps its activations `depth` times, `samples` at a time.
[[nodiscard]] double encoder_bytes(const TrainingProblem& problem, const Degrees& degrees,
                                   double depth, double samples);

[[nodiscard]] bool has_degree(const ModuleCosts& module, std::int64_t tp);

// Forms of plans, for `BestPlan::answer`.
[[nodiscard]] std::string form_of_backbone(const TrainingProblem& problem);  // on all devices
[[nodiscard]] std::string form_of_two(const TrainingProblem& problem);  // on devices of its own

/// The fullest of so many stages that have both modules.
[[nodiscard]] std::string fullest_of_both(const TrainingProblem& problem, std::int64_t stages);

/// Of modules on devices of their own, what the one that is further from fitting asks.
[[nodiscard]] MemoryNeed worse_of(const MemoryNeed& encoder, const MemoryNeed& backbone);

/// One batch with the two modules on devices of their own, in one pipeline: each round's samples go
/// to the encoder replicas longest first, its features to the replicas of the backbone.
///
/// `moves_small_out`: the round with the least encoder work comes first, the next least ones last.
/// A batch that takes `limit` seconds may be given up: what it says is then no less.
[[nodiscard]] double run_separate(BatchRunner& runner, std::size_t batch, const Plan3d& plan,
                                  Deal how, bool moves_small_out,
                                  double limit = std::numeric_limits<double>::infinity());

/// Tells the leanest plan of the published search's space, none of which fits.
void refuse_leanest(const TrainingProblem& problem, BestPlan& best);

// Families of plans that `best_of_methods` goes through, each offered to the best so far.
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
