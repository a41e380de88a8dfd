#include "studies/compare/planned_methods.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/search_plan.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/samples/draw_classes.h"
#include "studies/compare/trainer_plan.h"

namespace tributary::studies {
namespace {

using config::StudySetting;

plan::PlanningProblem problem_of(const StudySetting& setting) {
  plan::PlanningProblem problem{.model = setting.model,
                                .cluster = setting.cluster,
                                .devices = setting.devices,
                                .batches = batches_of(setting),
                                .frozen = setting.frozen};
  if (setting.memory)
    problem.cluster.device.memory = *setting.memory + problem.cluster.device.reserve;
  if (setting.recompute) problem.space.recompute = {*setting.recompute};
  return problem;
}

/// A choice with the setting's degrees, which runs its sequences one after another.
plan::PlanChoice choice_of(const plan::PlanningProblem& problem, const StudySetting& setting,
                           config::RecomputePlan recompute) {
  TRIB_REQUIRE(setting.devices % setting.ulysses == 0,
               .what = "studies: ulysses does not divide the devices",
               .where = str("setting ", setting.name), .found = str("ulysses ", setting.ulysses),
               .expected = str("a divisor of ", setting.devices));
  plan::PlanChoice choice{.encoders = {plan::encoders_of(problem).size(), std::nullopt}};
  choice.backbone = {.mesh = {.dp_shard = setting.devices / setting.ulysses,
                              .ulysses = setting.ulysses,
                              .ep = setting.ep},
                     .recompute = recompute};
  for (std::size_t encoder = 0; encoder < choice.encoders.size(); ++encoder)
    choice.inside.set(encoder, recompute);
  TRIB_REQUIRE(plan::can_cut(problem, *problem.model.find("backbone"), choice.backbone.mesh),
               .what = "studies: the model cannot be cut so",
               .where = str("setting ", setting.name),
               .found = str("ulysses ", setting.ulysses, ", ep ", setting.ep),
               .expected = "degrees that divide heads and experts");
  const std::int64_t replicas = choice.backbone.replicas();
  TRIB_REQUIRE(problem.global_samples() % replicas == 0,
               .what = "studies: samples do not divide over the replicas",
               .where = str("setting ", setting.name, " global_samples"),
               .found = str(problem.global_samples()),
               .expected = str("a multiple of ", replicas, ", devices / ulysses"));
  choice.microbatches = problem.global_samples() / replicas;
  return choice;
}

}  // namespace

std::vector<std::vector<simulate::SampleSize>> batches_of(const StudySetting& setting) {
  std::vector<std::vector<simulate::SampleSize>> batches;
  for (std::int64_t batch = 0; batch < setting.batches; ++batch)
    batches.push_back(simulate::draw_samples(setting.data, simulate::mixture_sound(setting.model),
                                             static_cast<std::uint64_t>(setting.seed),
                                             static_cast<std::uint64_t>(batch),
                                             setting.global_samples));
  return batches;
}

MethodResult run_search(const StudySetting& setting) {
  MethodResult method{.method = std::string(kSearchMethod), .source = "ours, the search of `plan`"};
  const plan::PlanningProblem problem = problem_of(setting);
  const Stopwatch watch;
  const plan::PlanSearch found = plan::search_plan(problem);
  method.milliseconds = 1e3 * watch.seconds();
  method.certificate = found.certificate;
  if (found.plans.empty()) return method;
  method.plan = plan::describe(problem, found.plans.front().choice);
  method.step_s = seconds_of(found.certificate.value);
  method.mfu = mean_mfu(problem, found.plans.front().plan, method.step_s);
  return method;
}

PlannedMethod plan_veomni(const plan::PlanningProblem& problem, const StudySetting& setting) {
  PlannedMethod best;
  for (const config::RecomputePlan recompute : problem.space.recompute) {
    const plan::PlanChoice choice = choice_of(problem, setting, recompute);
    const config::ModuleNode& backbone = *problem.model.find("backbone");
    const config::Plan plan = plan::to_plan(problem, choice, {{0, plan::units_of(backbone)}});
    const simulate::Simulation run = plan::simulate_on(problem, plan, std::ssize(problem.batches));
    const Nanoseconds step = run.distribution.mean;
    if (best.evaluations++ > 0 && step >= best.step) continue;
    best.plan = plan;
    best.text = plan::describe(problem, choice);
    best.step = step;
  }
  return best;
}

MethodResult run_veomni(const StudySetting& setting) {
  MethodResult method{.method = std::string(kVeomniMethod), .source = "VeOmni, appendix A"};
  const plan::PlanningProblem problem = problem_of(setting);
  check_problem(problem);
  const Stopwatch watch;
  const PlannedMethod best = plan_veomni(problem, setting);
  method.certificate.evaluations = best.evaluations;
  method.certificate.value = best.step;
  method.plan = best.text;
  method.step_s = seconds_of(best.step);
  method.mfu = mean_mfu(problem, best.plan, method.step_s);
  method.certificate.status = plan::Status::kFeasible;
  method.milliseconds = 1e3 * watch.seconds();
  return method;
}

PlanFile judge_plan_file(const StudySetting& setting, const PipelineAnswer& answer,
                         config::RecomputePlan recompute) {
  // Plan files are judged without packs of a given capacity.
  if (!answer.form || setting.capacity_tokens > 0) return PlanFile::kNoForm;
  const TrainerPlan placed = trainer_plan(problem_of(setting), *answer.form, recompute);
  if (placed.found) return placed.is_changed ? PlanFile::kChanged : PlanFile::kFits;
  return placed.is_short ? PlanFile::kTooLarge : PlanFile::kNoForm;
}

double mean_flops(const plan::PlanningProblem& problem, const config::Plan& plan) {
  const cost::LayerStageCosts costs = plan::costs_on(problem, plan);
  const cost::MicrobatchShape batch = plan::mean_batch(problem);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  double flops = 0;
  for (int module = 0; module < std::ssize(pipeline.modules); ++module)
    for (int stage = 0; stage < pipeline.modules[module].virtual_stages(); ++stage)
      flops += costs.flops(module, stage, batch).all.causal;
  return flops;
}

double mean_mfu(const plan::PlanningProblem& problem, const config::Plan& plan, double step_s) {
  return mean_flops(problem, plan) / (step_s * static_cast<double>(problem.devices) *
                                      problem.cluster.device.matrix_flops_per_s);
}

}  // namespace tributary::studies
