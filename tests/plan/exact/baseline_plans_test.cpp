#include <cstdio>
#include <gtest/gtest.h>
#include <map>
#include <optional>

#include "core/text.h"
#include "plan/baseline/pipeline_baselines.h"
#include "plan/baseline/problem_of_model.h"
#include "plan/exact/judge/batch_deals.h"
#include "plan/exact/judge/simulate_on.h"
#include "plan/exact/search_plan.h"
#include "plan/search/search_3d.h"
#include "tests/plan/exact/exact_case.h"

namespace tributary::plan {
namespace {

/// A plan of a published system: as published, or with shards in place of copies.
struct StandingPlan {
  std::string of;
  PlanChoice choice;
  std::vector<ChainCut> cuts;
};

/// As many layers on each stage as can be, the first ones have one more; what is before and behind
/// the blocks lies on the first and last.
ChainCut even_cut(const config::ModuleNode& node, std::int64_t stages) {
  const bool has_ends = node.name == "backbone";
  const std::int64_t layers = units_of(node) - (has_ends ? 2 : 0);
  ChainCut cut{0};
  for (std::int64_t stage = 0, end = has_ends ? 1 : 0; stage < stages; ++stage) {
    end += layers / stages + (stage < layers % stages ? 1 : 0);
    cut.push_back(end);
  }
  cut.back() = units_of(node);
  return cut;
}

/// The plan that a system's answer describes, where it can stand as one of the action lists.
class PublishedPlans {
 public:
  explicit PublishedPlans(const PlanningProblem& problem) : problem_(problem) {}

  void add(const std::string& name, const std::string& text, config::RecomputePlan level) {
    long tp = 0, pp = 0, dp = 0, mine = 0, rounds = 0, tp2 = 0, pp2 = 0, dp2 = 0;
    const auto scan = [&](const char* format, auto*... fields) {
      return std::sscanf(text.c_str(), format, fields...) == sizeof...(fields);
    };
    if (scan("encoder tp %ld, pp %ld, dp %ld; backbone tp %ld, pp %ld, dp %ld, %ld microbatches",
             &tp, &pp, &dp, &tp2, &pp2, &dp2, &rounds))
      add_copies_and_shards(name, {{tp, pp, dp}}, {tp2, pp2, dp2}, rounds, level);
    else if (scan("tp %ld, pp %ld, dp %ld, first %ld stages the encoder, %ld microbatches", &tp,
                  &pp, &dp, &mine, &rounds))
      add_copies_and_shards(name, {{tp, mine, dp}}, {tp, pp - mine, dp}, rounds, level);
    else if (scan("sharded, dp %ld, %ld microbatches", &dp, &rounds))
      add_copies_and_shards(name, {}, {1, 1, dp}, rounds, level);
    else if (scan("tp %ld, pp %ld, dp %ld, %ld microbatches", &tp, &pp, &dp, &rounds))
      add_copies_and_shards(name, {}, {tp, pp, dp}, rounds, level);
    else
      ADD_FAILURE() << name << " answers in words that are not known: " << text;
  }

  [[nodiscard]] const std::vector<StandingPlan>& plans() const { return plans_; }

 private:
  void add_copies_and_shards(const std::string& name, std::optional<Degrees> encoder,
                             const Degrees& backbone, std::int64_t rounds,
                             config::RecomputePlan level) {
    for (const bool shards : {false, true}) {
      const auto chain = [&](const Degrees& degrees) {
        ChainChoice own{.mesh = {.pp = degrees.pp, .tp = degrees.tp}, .recompute = level};
        (shards ? own.mesh.dp_shard : own.mesh.dp_replicate) = degrees.dp;
        return own;
      };
      StandingPlan plan{.of = name, .choice = {}, .cuts = {}};
      plan.choice = {.backbone = chain(backbone), .encoders = {{}}, .microbatches = rounds};
      const config::ModuleNode& vision = *encoders_of(problem_).front();
      const config::ModuleNode& node = *problem_.model.find("backbone");
      if (encoder) {
        plan.choice.encoders[0] = chain(*encoder);
        if (encoder->pp > units_of(vision)) continue;
        plan.cuts.push_back(even_cut(vision, encoder->pp));
      }
      const config::MeshShape& tower =
          encoder ? plan.choice.encoders[0]->mesh : plan.choice.backbone.mesh;
      config::MeshShape one_stage = tower;
      one_stage.pp = 1;
      if (backbone.pp > units_of(node) - 2) continue;  // a stage needs a layer
      plan.cuts.push_back(even_cut(node, backbone.pp));
      if (!can_cut(problem_, vision, one_stage) ||
          !can_cut(problem_, node, plan.choice.backbone.mesh) || !is_aligned(problem_, plan.choice))
        continue;
      plans_.push_back(std::move(plan));
    }
  }

  const PlanningProblem& problem_;
  std::vector<StandingPlan> plans_;
};

PlanningProblem random_problem(std::uint64_t seed) {
  RandomStream random(seed, "baseline_plans_test");
  const std::int64_t sizes[] = {2, 4, 6, 8, 16};
  const std::int64_t devices = sizes[random.below(5)];
  PlanningProblem problem =
      tiny_problem(devices, devices * random.between(1, 3), /*encoders=*/1, seed);
  problem.model = tiny_model(random.between(2, 8), 1);
  if (random.below(4) == 0) problem.frozen = {"vision"};
  const std::int64_t memories[] = {1500, 3000, 8000};
  problem.cluster.device.memory = {memories[random.below(3)] << 20};
  problem.cluster.device.reserve = {};
  for (config::LinkLevel& level : problem.cluster.levels)
    level.bytes_per_s *= random.below(2) == 0 ? 1 : 0.1;
  problem.space.chunks = {2};
  return problem;
}

/// Systems whose plans are degrees and stages of one pipeline. All others take turns by batches,
/// work in idle time of the pipeline, or have a pool: they are no action lists.
const char* const kStanding[] = {
    "megatron_uniform", "megatron_encoder_stage", "pytorch_3d", "fsdp",
    "orchmllm",         "disttrain_microbatch",   "dflop",      "dflop_fewest"};

std::vector<StandingPlan> published_plans(const PlanningProblem& problem) {
  PublishedPlans plans(problem);
  for (const config::RecomputePlan level :
       {config::RecomputePlan::kNone, config::RecomputePlan::kFull}) {
    const TrainingProblem tables = problem_of_model(problem.model, problem.cluster,
                                                    {.devices = problem.devices,
                                                     .batches = problem.batches,
                                                     .frozen = problem.frozen,
                                                     .recompute = level});
    for (const PipelineBaseline& baseline : pipeline_baselines()) {
      if (std::find(std::begin(kStanding), std::end(kStanding), baseline.name) ==
          std::end(kStanding))
        continue;
      const PipelineAnswer answer = baseline.solve(tables);
      if (!answer.plan.empty()) plans.add(std::string(baseline.name), answer.plan, level);
    }
    for (const Plan3d& each : search_3d(tables.costs, {.keep = 3}).plans)
      plans.add("published_objective",
                str("encoder tp ", each.encoder.tp, ", pp ", each.encoder.pp, ", dp ",
                    each.encoder.dp, "; backbone tp ", each.backbone.tp, ", pp ", each.backbone.pp,
                    ", dp ", each.backbone.dp, ", ", each.microbatches, " microbatches"),
                level);
  }
  return plans.plans();
}

TEST(SearchPlan, IsNeverWorseThanAPublishedSystemUnderTheSameSimulator) {
  std::map<std::string, int> compared;
  std::map<std::string, int> lost;
  constexpr std::uint64_t kProblems = 200;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const PlanningProblem problem = random_problem(seed);
    const PlanSearch search = search_plan(problem);
    BatchDeals deals(problem);
    for (const StandingPlan& plan : published_plans(problem)) {
      config::Plan of = to_plan(problem, plan.choice, plan.cuts);
      of.batch.capacity_tokens = deals.capacity(of, problem.batches.size());
      const Simulation simulation = simulate_on(problem, of, std::ssize(problem.batches));
      if (simulation.out_of_memory) continue;
      ++compared[plan.of];
      ASSERT_FALSE(search.plans.empty()) << "seed " << seed << ": " << search.certificate.limit;
      if (search.certificate.value > simulation.distribution.mean) ++lost[plan.of];
      EXPECT_LE(search.certificate.value, simulation.distribution.mean)
          << "seed " << seed << ", " << plan.of << ": " << describe(problem, plan.choice)
          << "\n  search: " << describe(problem, search.plans.front().choice) << ", "
          << problem.devices << " devices";
    }
  }
  for (const auto& [name, times] : compared) {
    std::cout << name << ": " << times << " plans, better than the search's " << lost[name] << '\n';
    EXPECT_GE(times, 100) << name;
  }
  EXPECT_EQ(compared.size(), std::size(kStanding) + 1);
}

}  // namespace
}  // namespace tributary::plan
