#include "app/answers/simulate_answer.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "app/requests/measured_machine.h"
#include "app/requests/standard_cluster.h"
#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "core/error.h"
#include "cost/watched_costs.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/engine/run_ahead.h"
#include "simulate/simai/simulate_workload.h"
#include "simulate/trace_of.h"

namespace tributary::app {
namespace {

std::int64_t ranks_of(const config::Plan& plan) {
  std::int64_t max = 0;
  for (const config::ModulePlan& module : plan.modules)
    for (const std::int64_t rank : module.ranks) max = std::max(max, rank + 1);
  return max;
}

MeasuredMachine find_costs(const SimulateRequest& request) {
  const std::int64_t ranks = ranks_of(request.plan);
  if (request.profile)
    return measured_machine(*request.profile, request.options.profile.where(), ranks,
                            request.options.threads, request.cluster,
                            request.options.given.caller());
  config::Cluster cluster = request.cluster ? *request.cluster : standard_cluster();
  const auto costs = std::make_shared<const cost::ClusterCosts>(cluster);
  return {std::move(cluster), costs};
}

struct FoundSamples {
  simulate::SampleSource source;
  std::string words;  // the samples in words
};

/// Recorded sizes or the mixture where the user asks for them; else the samples that the plan was
/// judged with; else the mixture for a plan with an encoder, and full microbatches without one.
FoundSamples find_samples(const SimulateRequest& request) {
  using Kind = simulate::SampleSource::Kind;
  using config::PlannedSamples;
  const config::PredictedPlan& predicted = request.plan.predicted;
  if (!request.run.empty()) return {{}, "microbatches of the run"};
  if (request.recorded)
    return {{.kind = Kind::kRecorded, .recorded = *request.recorded}, "recorded sizes"};
  const bool has_sound =
      simulate::mixture_sound(request.model) == simulate::MixtureSound::kBesidePictures;
  const std::string mixture = str("drawn from the mixture of photos, documents and videos",
                                  has_sound ? ", with sound" : "");
  if (request.options.mixture) return {{.kind = Kind::kMixture}, mixture};
  if (predicted.samples == PlannedSamples::kEqual)
    return {{.kind = Kind::kRecorded,
             .recorded = {.sizes = {{.tokens = predicted.sample_tokens.count}}}},
            str(predicted.sample_tokens, " each, as the plan was judged with")};
  const std::string others = predicted.samples == PlannedSamples::kRecorded
                                 ? "; the plan was judged with recorded sizes: give them"
                                 : "";
  if (predicted.samples == PlannedSamples::kMixture || request.plan.modules.size() > 1)
    return {
        {.kind = Kind::kMixture},
        mixture + (predicted.samples == PlannedSamples::kMixture ? ", as the plan was judged with"
                                                                 : others)};
  return {
      {.kind = Kind::kFullMicrobatches},
      str("microbatches full with one sequence of ", request.plan.batch.capacity_tokens, others)};
}

config::ReduceDtype reduce_dtype_of(const SimulateOptions& options) {
  const std::string& text = options.reduce_dtype;
  TRIB_REQUIRE(text == "float32" || text == "same", .what = "app: no such type of gradients",
               .where = options.given.name("--reduce-dtype"), .found = escaped(text),
               .expected = "float32 or same");
  return text == "same" ? config::ReduceDtype::kSame : config::ReduceDtype::kFloat32;
}

/// Whether an encoder gives features to the pool one microbatch after another.
bool fills_pool(const SimulateRequest& request) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(request.plan);
  const schedule::PipelineMap map(pipeline);
  const std::vector<bool> whole_batches = simulate::RunAhead::edges_ahead(request.plan, map);
  for (std::size_t edge = 0; edge < pipeline.edges.size(); ++edge) {
    const std::string& from = pipeline.modules[pipeline.edges[edge].from].name;
    if (request.plan.find(from)->placement != config::Placement::kFlow) continue;
    if (request.options.ahead < 0 || !whole_batches[edge]) return true;
  }
  return false;
}

/// Refuses options that have no effect with this plan.
void refuse_idle_for_plan(const SimulateRequest& request) {
  const GivenOptions& given = request.options.given;
  if (given.has("--pool") && !fills_pool(request))
    given.refuse({"--pool"},
                 request.options.ahead < 0
                     ? "a plan without a module of placement flow"
                     : str(given.name("--ahead"), ", which takes whole batches"),
                 "a module of placement flow that gives single microbatches");
  const config::ModulePlan* backbone = request.plan.find(config::kBackboneModule);
  if (backbone != nullptr && backbone->mesh.tp == 1)
    given.refuse({"--no-sequence-parallel"}, "a backbone of tp 1", "tp above 1");
}

simulate::SimulationOptions options_of(const SimulateOptions& asked) {
  return {.steps = asked.steps,
          .seed = static_cast<std::uint64_t>(asked.seed),
          .disturbance = asked.disturbance,
          .network = {.share_links = true,
                      .pool_microbatches = static_cast<int>(asked.pool),
                      .threads = asked.threads},
          .batches_ahead = static_cast<int>(asked.ahead),
          .scheduler = {std::llround(1e6 * asked.scheduler_ms)}};
}

config::Trace answer_workload(const SimulateRequest& request) {
  const config::Cluster cluster = request.cluster ? *request.cluster : standard_cluster();
  const simulate::Simulation simulation =
      simulate::simulate_workload(*request.workload, cluster, options_of(request.options));
  return simulate::trace_of_workload(simulation, *request.workload, cluster.name);
}

}  // namespace

config::Trace answer_simulate(const SimulateRequest& request) {
  if (request.workload) return answer_workload(request);
  const config::Plan& plan = request.plan;
  const SimulateOptions& asked = request.options;
  simulate::RunAhead::check_batches_ahead(plan, asked.ahead, asked.given.name("--ahead"));
  refuse_idle_for_plan(request);
  const auto [cluster, costs_of_machine] = find_costs(request);
  const auto source = std::make_shared<const cost::WatchedCosts>(costs_of_machine);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const cost::LayerStageCosts costs(
      plan, request.model, cluster, source, pipeline,
      {.attention =
           asked.unfused_attention ? cost::AttentionCore::kScores : cost::AttentionCore::kFused,
       .sequence_parallel = asked.sequence_parallel,
       .reduce_dtype = reduce_dtype_of(asked)});
  const FoundSamples samples = find_samples(request);
  simulate::SimulationOptions options = options_of(asked);
  options.samples = samples.source;
  const simulate::Simulation simulation =
      request.run.empty()
          ? simulate::simulate(plan, costs, cluster, options)
          : simulate::simulate_recorded(plan, costs, cluster, options, request.run, request.media);
  config::Trace trace = simulate::trace_of(simulation, asked.plan.where(), cluster.name);
  if (request.profile && request.profile->flops_per_s == 0) {  // its peak is not known
    trace.summary.mfu = 0;
    trace.summary.utilisation.clear();
    trace.summary.unknown = {"mfu"};
  }
  trace.summary.plan_digest = config::plan_digest(plan);
  trace.summary.planned_step = plan.predicted.step;
  trace.summary.samples = samples.words;
  trace.summary.beyond_grid = source->beyond_grid();
  return trace;
}

}  // namespace tributary::app
