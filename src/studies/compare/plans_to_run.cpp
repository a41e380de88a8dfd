#include "studies/compare/plans_to_run.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/search_plan.h"
#include "schedule/pack.h"
#include "studies/compare/compare.h"
#include "studies/compare/planned_methods.h"
#include "studies/compare/trainer_plan.h"
#include "studies/methods/batch_runner.h"
#include "studies/methods/recompute_levels.h"

namespace tributary::studies {
namespace {

using config::StudySetting;

/// Why a method of tables has no plan that a process could run, whatever the machine.
std::string why_never(const PipelineBaseline& baseline) {
  if (baseline.role == BaselineRole::kReference)
    return str("a reference for tables: ", baseline.source);
  if (baseline.role == BaselineRole::kBound) return std::string(baseline.source);
  return {};
}

/// The max number of microbatches of a replica in any batch, where samples go round-robin.
std::int64_t max_microbatches(const plan::PlanningProblem& problem, const config::Plan& plan) {
  const config::MeshShape& mesh = plan.find("backbone")->mesh;
  const auto replicas = static_cast<std::size_t>(mesh.dp_replicate * mesh.dp_shard);
  std::int64_t max = 0;
  for (const std::vector<simulate::SampleSize>& batch : problem.batches)
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      std::vector<Tokens> own;
      for (std::size_t i = replica; i < batch.size(); i += replicas)
        own.push_back({batch[i].tokens});
      max =
          std::max(max, schedule::pack(plan.batch.packing, own, plan.batch.capacity_tokens).bins());
    }
  return max;
}

class PlanMaker {
 public:
  PlanMaker(const StudySetting& setting, const plan::PlanningProblem& problem,
            const SampleBatches& samples, const TrainerRefusal& refusal)
      : setting_(setting), problem_(problem), samples_(samples), refusal_(refusal) {}

  PlanToRun plan(const std::string& method) {
    if (method == kSearchMethod) return by_search();
    if (method == kVeomniMethod) return by_veomni();
    for (const PipelineBaseline& baseline : pipeline_baselines())
      if (baseline.name == method) return by_tables(baseline);
    return {.method = method, .reason = "no such method"};
  }

 private:
  PlanToRun by_tables(const PipelineBaseline& baseline) {
    PlanToRun made{.method = std::string(baseline.name), .source = std::string(baseline.source)};
    made.reason = why_never(baseline);
    if (!made.reason.empty()) return made;
    const auto [answer, tables] = solve_levels(baseline, levels());
    if (answer.certificate.status == plan::Status::kInfeasible) {
      made.reason = answer.certificate.limit;
    } else if (!answer.form) {
      made.reason =
          str("the trainer has no such form: ",
              baseline.beyond_search.empty() ? answer.plan : std::string(baseline.beyond_search));
    } else {
      TrainerPlan placed = trainer_plan(problem_, *answer.form, tables->recompute);
      made.text = std::move(placed.text);
      made.reason = std::move(placed.reason);
      if (placed.found) made.plan = std::move(placed.found->plan);
    }
    if (made.plan && baseline.dispatch == Deal::kInOrder) {
      made.plan = dispatched_in_order(problem_, *std::move(made.plan));
      made.text += ", samples in order";
    }
    return finished(std::move(made));
  }

  PlanToRun by_search() const {
    PlanToRun made{.method = std::string(kSearchMethod), .source = "ours, the search of `plan`"};
    const plan::PlanSearch found = plan::search_plan(problem_);
    if (found.plans.empty()) made.reason = found.certificate.limit;
    for (const plan::FoundPlan& each : found.plans) {
      const std::string reason = refusal_(each.plan);
      if (!reason.empty()) {
        if (made.reason.empty()) made.reason = str("`train` refuses its plan: ", reason);
        continue;
      }
      made.reason.clear();
      made.plan = each.plan;
      made.text = plan::describe(problem_, each.choice);
      break;
    }
    return finished(std::move(made));
  }

  PlanToRun by_veomni() const {
    PlanToRun made{.method = std::string(kVeomniMethod), .source = "VeOmni, appendix A"};
    PlannedMethod found = plan_veomni(problem_, setting_);
    made.plan = std::move(found.plan);
    made.text = std::move(found.text);
    return finished(std::move(made));
  }

  /// Asks the trainer and the simulator about a plan; either may refuse it.
  PlanToRun finished(PlanToRun made) const {
    if (!made.plan) return made;
    const auto refuse = [&](const std::string& reason) {
      made.plan.reset();
      made.reason = reason;
    };
    if (const std::string reason = refusal_(*made.plan); !reason.empty()) {
      refuse(str("`train` refuses its plan: ", reason));
      return made;
    }
    const simulate::Simulation simulation = simulate::simulate(
        *made.plan, plan::costs_on(problem_, *made.plan), problem_.cluster,
        {.steps = std::ssize(samples_),
         .samples = {.kind = simulate::SampleSource::Kind::kShapes, .shapes = &samples_},
         .network = {.threads = problem_.threads}});
    if (simulation.out_of_memory) {
      refuse(str("memory: it holds ", simulation.out_of_memory->needed, " on ",
                 simulation.out_of_memory->lane, ", of ", simulation.out_of_memory->available));
      return made;
    }
    const auto warm_up =
        static_cast<std::ptrdiff_t>(setting_.run ? setting_.run->warm_up_steps : 0);
    made.simulated =
        simulate::distribution_of({simulation.steps.begin() + warm_up, simulation.steps.end()})
            .median;
    made.plan->predicted.step = made.simulated;
    made.plan->predicted.samples = config::PlannedSamples::kRecorded;
    made.mfu = mean_mfu(problem_, *made.plan, seconds_of(made.simulated));
    return made;
  }

  /// The tables of the model on this machine, made once.
  const std::vector<RecomputedTables>& levels() {
    if (levels_.empty()) {
      ModelSetting model{.devices = problem_.devices,
                         .batches = problem_.batches,
                         .frozen = problem_.frozen,
                         .memory = setting_.memory,
                         .measured = problem_.measured};
      model.given = {setting_.tp, setting_.pp};
      levels_ =
          recompute_levels(problem_.model, problem_.cluster, std::move(model), setting_.recompute);
    }
    return levels_;
  }

  const StudySetting& setting_;
  const plan::PlanningProblem& problem_;
  const SampleBatches& samples_;
  const TrainerRefusal& refusal_;
  std::vector<RecomputedTables> levels_;
};

}  // namespace

std::vector<PlanToRun> plans_to_run(const config::Study& study, const StudySetting& setting,
                                    const plan::PlanningProblem& problem,
                                    const SampleBatches& samples, const TrainerRefusal& refusal,
                                    const OnMethod& on_method) {
  std::vector<std::string> methods = study.methods;
  if (methods.empty())
    for (const config::StudyMethod& each : study_methods(study.kind))
      if (each.in_all) methods.push_back(each.name);
  PlanMaker maker(setting, problem, samples, refusal);
  std::vector<PlanToRun> plans;
  for (const std::string& method : methods) {
    if (on_method) on_method(method);
    plans.push_back(maker.plan(method));
  }
  return plans;
}

config::Plan dispatched_in_order(const plan::PlanningProblem& problem, config::Plan plan) {
  constexpr std::int64_t kSteps = 64;  // a capacity is tried after one that is this part smaller
  plan.batch.balance = config::Balance::kNone;
  plan.batch.packing = config::Packing::kBestFitDecreasing;
  Tokens& capacity = plan.batch.capacity_tokens;
  capacity = problem.longest_sample;
  for (const std::vector<simulate::SampleSize>& batch : problem.batches)
    for (const simulate::SampleSize& sample : batch)
      capacity.count = std::max(capacity.count, sample.tokens);
  while (max_microbatches(problem, plan) > plan.batch.microbatches)
    capacity.count += capacity.count / kSteps + 1;
  return plan;
}

}  // namespace tributary::studies
