#include "studies/methods/all_methods.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/join.h"
#include "core/text.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

// Forms that no plan of `search` has.
constexpr std::string_view kCut = "encoder layers cut over stages of the backbone";
constexpr std::string_view kSegments = "segments of both modules in turn on the same ranks";
constexpr std::string_view kGroups =
    "samples dealt anew between encoder and backbone within groups of ranks";
constexpr std::string_view kNested = "the encoder of each microbatch on the ranks of all stages";
constexpr std::string_view kDealt =
    "samples dealt anew between encoder and backbone in every microbatch";
constexpr std::string_view kBatches = "encoder and backbone in turn by whole batches";
constexpr std::string_view kPool = "a pool of features";
constexpr std::string_view kIdle = "the encoder in idle time of all stages";
constexpr std::string_view kOwnDegree = "the encoder at a tp of its own on the first stage alone";
constexpr std::string_view kNoEncoder = "no encoder at all";
constexpr std::string_view kAny = "plans of any published method";

constexpr std::array kBaselines = {
    PipelineBaseline{"megatron_uniform", "FlowTrain, DistTrain", BaselineRole::kMethod,
                     solve_megatron_uniform, Deal::kInOrder, kCut},
    PipelineBaseline{"megatron_vpp", "Narayanan 2021, Megatron interleaved", BaselineRole::kMethod,
                     solve_megatron_vpp, Deal::kInOrder, kCut},
    PipelineBaseline{"megatron_first_stage", "Megatron, the encoder before the first layers",
                     BaselineRole::kMethod, solve_megatron_first_stage, Deal::kInOrder},
    PipelineBaseline{"megatron_encoder_stage", "DFLOP, figure 1", BaselineRole::kMethod,
                     solve_megatron_encoder_stage, Deal::kInOrder},
    PipelineBaseline{"pytorch_3d", "DFLOP", BaselineRole::kReference, solve_pytorch_3d,
                     Deal::kInOrder},
    PipelineBaseline{"fsdp", "Zhao 2023, PyTorch FSDP", BaselineRole::kMethod, solve_fsdp,
                     Deal::kInOrder},
    PipelineBaseline{"orchmllm", "OrchMLLM", BaselineRole::kMethod, solve_orchmllm, Deal::kBalanced,
                     kDealt},
    PipelineBaseline{"pipeweaver", "Xue 2025, PipeWeaver and DIP", BaselineRole::kMethod,
                     solve_pipeweaver, Deal::kInOrder, kSegments},
    PipelineBaseline{"megascale_omni", "Xue 2026, MegaScale-Omni", BaselineRole::kMethod,
                     solve_megascale_omni, Deal::kBalanced, kGroups},
    PipelineBaseline{"bigmac", "BigMac", BaselineRole::kMethod, solve_bigmac, Deal::kInOrder,
                     kNested},
    PipelineBaseline{"disttrain_microbatch", "Zhang 2024, DistTrain", BaselineRole::kMethod,
                     solve_disttrain_microbatch, Deal::kInOrder},
    PipelineBaseline{"disttrain_batch_serial", "DistTrain as FlowTrain reads it",
                     BaselineRole::kMethod, solve_disttrain_batch_serial, Deal::kInOrder, kBatches},
    PipelineBaseline{"disttrain_batch_double", "the same, one batch ahead",
                     BaselineRole::kBatchAhead, solve_disttrain_batch_double, Deal::kInOrder,
                     kBatches},
    PipelineBaseline{"disttrain_batch_double_lpt", "the same, longest samples first",
                     BaselineRole::kBatchAhead, solve_disttrain_batch_double_lpt, Deal::kBalanced,
                     kBatches},
    PipelineBaseline{"dflop", "DFLOP, algorithm 1 and its balancing", BaselineRole::kMethod,
                     solve_dflop, Deal::kBalanced},
    PipelineBaseline{"dflop_fewest", "DFLOP, section 5.3.5: the fewest microbatches within a tenth",
                     BaselineRole::kMethod, solve_dflop_fewest, Deal::kBalanced},
    PipelineBaseline{"dflop_without_scheduler", "DFLOP, figure 10: samples as they come",
                     BaselineRole::kAblation, solve_dflop_without_scheduler, Deal::kInOrder},
    PipelineBaseline{"flowtrain", "FlowTrain, equations 1 and 2 and its pool",
                     BaselineRole::kBatchAhead, solve_flowtrain, Deal::kZigZag, kPool},
    PipelineBaseline{"flowtrain_without_pool", "FlowTrain, table 1: in step with each batch",
                     BaselineRole::kAblation, solve_flowtrain_without_pool, Deal::kZigZag,
                     kBatches},
    PipelineBaseline{"flowtrain_without_allocator",
                     "FlowTrain, table 1: the slowest stage made shortest", BaselineRole::kAblation,
                     solve_flowtrain_without_allocator, Deal::kZigZag, kPool},
    PipelineBaseline{"flowtrain_without_scheduler", "FlowTrain, table 1: samples as they come",
                     BaselineRole::kAblation, solve_flowtrain_without_scheduler, Deal::kInOrder,
                     kPool},
    PipelineBaseline{"optimus", "Feng 2024, Optimus", BaselineRole::kMethod, solve_optimus,
                     Deal::kInOrder, kIdle},
    PipelineBaseline{"loongforge_1", "LoongForge, heterogeneous TP", BaselineRole::kMethod,
                     solve_loongforge_1, Deal::kInOrder, kOwnDegree},
    PipelineBaseline{"loongforge_2", "LoongForge, heterogeneous DP", BaselineRole::kMethod,
                     solve_loongforge_2, Deal::kInOrder, kOwnDegree},
    PipelineBaseline{"loongforge_3", "LoongForge, full separation", BaselineRole::kMethod,
                     solve_loongforge_3, Deal::kInOrder},
    PipelineBaseline{"backbone_alone", "upper reference: features are free",
                     BaselineRole::kReference, solve_backbone_alone, Deal::kInOrder, kNoEncoder,
                     false},
    PipelineBaseline{"best_of_methods", "no system: the best of all these plans, samples balanced",
                     BaselineRole::kBound, solve_best_of_methods, Deal::kBalanced, kAny},
};

}  // namespace

std::span<const PipelineBaseline> pipeline_baselines() { return kBaselines; }

TrainerForm form_of(const Plan3d& plan) {
  return {.backbone = plan.backbone, .microbatches = plan.microbatches, .encoder = plan.encoder};
}

TrainerForm colocated_form(const Degrees& backbone, std::int64_t rounds, std::int64_t tp) {
  return {.backbone = backbone,
          .microbatches = rounds,
          .placement = config::Placement::kColocated,
          .encoder = {tp, 1, backbone.devices() / tp}};
}

TrainerForm first_stage_form(const Degrees& backbone, std::int64_t rounds, std::int64_t tp,
                             std::int64_t passes) {
  return {.backbone = backbone,
          .microbatches = rounds,
          .placement = config::Placement::kColocated,
          .encoder = {tp, 1, backbone.tp * backbone.dp / tp},
          .first_stage_passes = passes};
}

TrainerForm inline_form(const Degrees& backbone, std::int64_t rounds) {
  return {.backbone = backbone, .microbatches = rounds, .placement = config::Placement::kInline};
}

PipelineAnswer solve_best_of_methods(const TrainingProblem& given) {
  TrainingProblem problem = given;
  problem.given = {};  // the published degrees belong to others
  BatchRunner runner(problem);
  BestPlan own(runner);
  offer_balanced_shards(problem, runner, own);
  offer_balanced_phases(problem, runner, own);
  offer_balanced_bubbles(problem, runner, own);
  offer_balanced_nested(problem, runner, own);
  offer_balanced_first_stage(problem, runner, own);
  offer_balanced_segments(problem, runner, own);
  offer_balanced_separate(problem, runner, own);
  PipelineAnswer best = own.answer(form_of_backbone(problem));
  // Includes the published plans, so that no system of the table is better.
  std::int64_t evaluations = best.certificate.evaluations;
  bool is_truncated = best.certificate.status == plan::Status::kTruncated;
  for (const PipelineBaseline& baseline : kBaselines) {
    const bool may_serve = baseline.role == BaselineRole::kMethod ||
                           (baseline.role == BaselineRole::kBatchAhead && !problem.encoder_trains);
    if (!may_serve) continue;
    PipelineAnswer answer = baseline.solve(problem);
    evaluations += answer.certificate.evaluations;
    is_truncated |= answer.certificate.status == plan::Status::kTruncated;
    if (answer.certificate.status == plan::Status::kInfeasible) {
      // The leanest of all plans that do not fit says what is missing.
      const bool is_leaner =
          answer.min_bytes > 0 && (best.min_bytes == 0 || answer.min_bytes < best.min_bytes);
      if (best.certificate.status == plan::Status::kInfeasible && is_leaner)
        best = std::move(answer);
      continue;
    }
    if (best.certificate.status != plan::Status::kInfeasible &&
        answer.certificate.value >= best.certificate.value)
      continue;
    best = std::move(answer);
    best.plan = str(baseline.name, ": ", best.plan);
  }
  best.certificate.evaluations = evaluations;
  if (is_truncated) best.certificate.status = plan::Status::kTruncated;
  return best;
}

BestPlan::BestPlan(BatchRunner& runner)
    : runner_(runner), seconds_(std::numeric_limits<double>::infinity()) {
  check_problem(runner.problem());
}

void BestPlan::offer(const OfferedPlan& plan, const BatchCost& cost) {
  const std::vector<double> min(runner_.problem().batches.size());
  race(
      plan, [&](std::size_t batch, double) { return cost(batch); }, min);
}

void BestPlan::race(const OfferedPlan& plan, const RacedCost& cost, std::span<const double> min) {
  constexpr double kRounding = 1e-6;  // passes are timed in whole nanoseconds
  ++evaluations_;
  (void)runner_.take_counted();
  const auto batches = static_cast<double>(min.size());
  double sum = 0;
  for (std::size_t batch = 0; batch < min.size(); ++batch) {
    const double others =
        (1 - kRounding) * std::accumulate(min.begin() + std::ptrdiff_t(batch) + 1, min.end(), 0.0);
    if ((sum + (1 - kRounding) * min[batch] + others) / batches >= seconds_) return;
    sum += cost(batch, (seconds_ * batches - sum - others) * (1 + kRounding));
    if ((sum + others) / batches >= seconds_) return;
  }
  seconds_ = sum / batches;
  counted_ = runner_.take_counted();
  plan_ = plan;
}

std::string BestPlan::explain(const std::string& form) const {
  const Problem3d& costs = runner_.problem().costs;
  if (!std::isfinite(min_.bytes))
    return str("degrees: no plan of ", costs.devices, " devices for ", costs.global_samples,
               " samples has this method's form: ", form);
  return explain_shortage(min_, costs.memory_bytes);
}

PipelineAnswer BestPlan::answer(const std::string& form) const {
  PipelineAnswer answer = {.certificate = {.evaluations = evaluations_}};
  const TrainingProblem& problem = runner_.problem();
  if (evaluations_ == 0) {
    answer.certificate.limit = explain(form);
    if (std::isfinite(min_.bytes)) answer.min_bytes = min_.bytes;
    return answer;
  }
  answer.plan = plan_->text;
  answer.form = plan_->form;
  // The backbone's work at peak on all devices, so that the bound also holds for `backbone_alone`.
  const ModuleCosts& backbone = problem.costs.backbone;
  double peak = 0;
  for (const DegreeCosts& costs : backbone.degrees) peak = std::max(peak, costs.throughput.peak());
  double tokens = 0;
  for (const std::vector<SampleWork>& batch : problem.batches) {
    for (const SampleWork& sample : batch) tokens += sample.tokens;
  }
  const double work = backbone.sample_flops / backbone.sample_shape * tokens /
                      static_cast<double>(problem.batches.size());
  answer.certificate.value = {std::llround(1e9 * seconds_)};
  answer.certificate.lower_bound = {
      static_cast<std::int64_t>(1e9 * work / (peak * static_cast<double>(problem.costs.devices)))};
  answer.certificate.status = is_truncated_ ? plan::Status::kTruncated : plan::Status::kFeasible;
  const double all = seconds_ * static_cast<double>(problem.costs.devices) *
                     static_cast<double>(problem.batches.size());
  answer.busy_share = counted_.busy / all;
  if (counted_.bubbles) answer.bubble_share = std::max(0.0, *counted_.bubbles / all);
  return answer;
}

std::vector<std::int64_t> rounds_of(const TrainingProblem& problem, std::int64_t replicas) {
  const std::int64_t global_samples = problem.costs.global_samples;
  std::vector<std::int64_t> found;
  const std::int64_t mine = global_samples / replicas;
  if (problem.capacity_tokens > 0 && mine > 0) {
    // Full packs: the fewest that hold the mean batch.
    const double packs = problem.costs.backbone.sample_shape * double(global_samples) /
                         (problem.capacity_tokens * double(replicas));
    return {std::clamp<std::int64_t>(std::llround(std::ceil(packs)), 1, mine)};
  }
  for (std::int64_t rounds = 1; rounds <= mine; ++rounds) {
    if (mine % rounds == 0) found.push_back(rounds);
  }
  return found;
}

void for_each_backbone(
    const TrainingProblem& problem,
    const std::function<void(const Degrees& backbone, std::int64_t rounds)>& visit) {
  const Problem3d& costs = problem.costs;
  for (const Degrees& backbone :
       list_degrees(costs.backbone, costs.devices, costs.global_samples)) {
    for (const std::int64_t rounds : rounds_of(problem, backbone.dp)) {
      visit(backbone, rounds);
    }
  }
}

double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone,
                      std::int64_t rounds) {
  return backbone_bytes(problem, backbone, rounds, double(backbone.pp));
}

double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone, std::int64_t rounds,
                      double depth) {
  const ModuleCosts& module = problem.costs.backbone;
  const double samples =
      static_cast<double>(problem.costs.global_samples) / static_cast<double>(rounds * backbone.dp);
  return device_bytes(module, backbone, depth, samples * module.sample_shape);
}

double encoder_bytes(const TrainingProblem& problem, const Degrees& degrees, double depth,
                     double samples) {
  const ModuleCosts& module = problem.costs.encoder;
  return device_bytes(module, degrees, depth, samples * module.sample_shape);
}

std::string form_of_backbone(const TrainingProblem& problem) {
  const ModuleCosts& module = problem.costs.backbone;
  return str("all devices as tp x pp x dp of ", module.name, ", tp one of ",
             join(module.degrees, ", ", &DegreeCosts::tp), ", pp up to ", module.layers,
             ", dp up to the samples");
}

std::string form_of_two(const TrainingProblem& problem) {
  const auto part = [](const ModuleCosts& module) {
    return str(module.name, " with pp up to ", module.layers);
  };
  return str("tp x pp x dp of ", part(problem.costs.encoder), " and of ",
             part(problem.costs.backbone), ", each on a part of the devices, tp as in the tables");
}

std::string fullest_of_both(const TrainingProblem& problem, std::int64_t stages) {
  return str(stages > 1 ? "the first stage of " : "", problem.costs.encoder.name, " and ",
             problem.costs.backbone.name);
}

MemoryNeed worse_of(const MemoryNeed& encoder, const MemoryNeed& backbone) {
  const MemoryNeed& worse = encoder.bytes > backbone.bytes ? encoder : backbone;
  return {worse.bytes, str(encoder.plan, "; ", backbone.plan), worse.of};
}

bool has_degree(const ModuleCosts& module, std::int64_t tp) {
  return std::any_of(module.degrees.begin(), module.degrees.end(),
                     [&](const DegreeCosts& costs) { return costs.tp == tp; });
}

}  // namespace tributary::studies
