#include "plan/baseline/pipeline_baselines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/text.h"
#include "plan/baseline/plan_space.h"

namespace tributary::plan {
namespace {

constexpr std::array kBaselines = {
    PipelineBaseline{"megatron_uniform", "FlowTrain, DistTrain", solve_megatron_uniform},
    PipelineBaseline{"megatron_encoder_stage", "DFLOP, figure 1", solve_megatron_encoder_stage},
    PipelineBaseline{"pytorch_3d", "DFLOP", solve_pytorch_3d},
    PipelineBaseline{"fsdp", "Zhao 2023, PyTorch FSDP", solve_fsdp},
    PipelineBaseline{"orchmllm", "OrchMLLM", solve_orchmllm},
    PipelineBaseline{"disttrain_microbatch", "Zhang 2024, DistTrain", solve_disttrain_microbatch},
    PipelineBaseline{"disttrain_batch_serial", "DistTrain as FlowTrain reads it",
                     solve_disttrain_batch_serial},
    PipelineBaseline{"disttrain_batch_double", "the same, one batch ahead",
                     solve_disttrain_batch_double},
    PipelineBaseline{"disttrain_batch_double_lpt", "the same, longest samples first",
                     solve_disttrain_batch_double_lpt},
    PipelineBaseline{"dflop", "DFLOP, algorithm 1 and its balancing", solve_dflop},
    PipelineBaseline{"flowtrain", "FlowTrain, equations 1 and 2 and its pool", solve_flowtrain},
    PipelineBaseline{"optimus", "Feng 2024, Optimus", solve_optimus},
    PipelineBaseline{"loongforge_1", "LoongForge, heterogeneous TP", solve_loongforge_1},
    PipelineBaseline{"loongforge_2", "LoongForge, heterogeneous DP", solve_loongforge_2},
    PipelineBaseline{"loongforge_3", "LoongForge, full separation", solve_loongforge_3},
    PipelineBaseline{"backbone_alone", "upper reference: features are free", solve_backbone_alone},
};

}  // namespace

std::span<const PipelineBaseline> pipeline_baselines() { return kBaselines; }

BestPlan::BestPlan(const TrainingProblem& problem)
    : problem_(problem), seconds_(std::numeric_limits<double>::infinity()) {
  check_problem(problem);
}

void BestPlan::offer(const std::string& plan, const BatchCost& cost) {
  ++evaluations_;
  double sum = 0;
  const auto batches = static_cast<double>(problem_.batches.size());
  for (std::size_t batch = 0; batch < problem_.batches.size(); ++batch) {
    sum += cost(batch);
    if (sum / batches >= seconds_) return;
  }
  seconds_ = sum / batches;
  plan_ = plan;
}

PipelineAnswer BestPlan::answer(const std::string& limit) const {
  PipelineAnswer answer = {.certificate = {.evaluations = evaluations_}, .plan = plan_};
  if (evaluations_ == 0) {
    answer.certificate.limit = limit;
    return answer;
  }
  // The backbone's work at peak on all devices, so that the bound holds for `backbone_alone` too.
  const ModuleCosts& backbone = problem_.costs.backbone;
  double peak = 0;
  for (const DegreeCosts& costs : backbone.degrees) peak = std::max(peak, costs.throughput.peak());
  double tokens = 0;
  for (const std::vector<SampleWork>& batch : problem_.batches) {
    for (const SampleWork& sample : batch) tokens += sample.tokens;
  }
  const double work = backbone.sample_flops / backbone.sample_shape * tokens /
                      static_cast<double>(problem_.batches.size());
  answer.certificate.value = {std::llround(1e9 * seconds_)};
  answer.certificate.lower_bound = {
      static_cast<std::int64_t>(1e9 * work / (peak * static_cast<double>(problem_.costs.devices)))};
  answer.certificate.status = Status::kFeasible;
  return answer;
}

std::string to_text(const Degrees& degrees) {
  return str("tp ", degrees.tp, ", pp ", degrees.pp, ", dp ", degrees.dp);
}

std::vector<std::int64_t> rounds_of(std::int64_t global_samples, std::int64_t replicas) {
  std::vector<std::int64_t> found;
  const std::int64_t mine = global_samples / replicas;
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
    for (const std::int64_t rounds : rounds_of(costs.global_samples, backbone.dp)) {
      visit(backbone, rounds);
    }
  }
}

double backbone_bytes(const TrainingProblem& problem, const Degrees& backbone,
                      std::int64_t rounds) {
  const ModuleCosts& module = problem.costs.backbone;
  const double samples =
      static_cast<double>(problem.costs.global_samples) / static_cast<double>(rounds * backbone.dp);
  return device_bytes(module, costs_at(module, backbone.tp), backbone.pp, backbone.pp,
                      samples * module.sample_shape);
}

double encoder_bytes(const TrainingProblem& problem, std::int64_t tp, std::int64_t pp,
                     std::int64_t depth, double samples) {
  const ModuleCosts& module = problem.costs.encoder;
  return device_bytes(module, costs_at(module, tp), pp, depth, samples * module.sample_shape);
}

bool has_degree(const ModuleCosts& module, std::int64_t tp) {
  return std::any_of(module.degrees.begin(), module.degrees.end(),
                     [&](const DegreeCosts& costs) { return costs.tp == tp; });
}

}  // namespace tributary::plan
