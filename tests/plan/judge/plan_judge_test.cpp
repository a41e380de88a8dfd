#include "plan/judge/plan_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/judge/cut_chains.h"
#include "plan/judge/simulate_on.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "schedule/step_plan.h"
#include "simulate/samples/deal_step.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::RecomputePlan;

/// Choices of every kind on up to 8 devices; of several encoders this one may have a mesh.
std::vector<PlanChoice> some_choices(std::size_t encoders, std::size_t meshed) {
  std::vector<PlanChoice> choices;
  for (const PipelineOrder order : {PipelineOrder::k1f1b, PipelineOrder::kInterleaved,
                                    PipelineOrder::kZbH1, PipelineOrder::kZbV}) {
    for (const bool apart : {false, true}) {
      if (apart && encoders == 0) continue;
      for (const std::int64_t shard : {1, 2}) {
        PlanChoice choice{.schedule = order, .microbatches = 4};
        choice.chunks =
            order == PipelineOrder::kInterleaved || order == PipelineOrder::kZbV ? 2 : 1;
        choice.backbone.mesh = {.pp = 2, .dp_replicate = 2 / shard, .dp_shard = shard};
        choice.backbone.recompute = shard == 1 ? RecomputePlan::kFull : RecomputePlan::kNone;
        choice.encoders.resize(encoders);
        if (apart)
          choice.encoders[meshed] = ChainChoice{.mesh = {.pp = shard, .dp_replicate = 1, .tp = 2},
                                                .recompute = RecomputePlan::kSelective};
        choices.push_back(choice);
        if (apart && !schedule::traits_of(order).splits_backward) {
          for (const std::int64_t passes : {1, 3}) {
            choice.encoders[meshed] =
                ChainChoice{.mesh = {.dp_replicate = 2 / shard, .tp = 2 * shard}, .passes = passes};
            choices.push_back(choice);
          }
        }
        if (apart) continue;
        choice.backbone.mesh = {.pp = 1, .dp_shard = 2, .tp = 2};
        if (order == PipelineOrder::k1f1b) choices.push_back(choice);
      }
    }
  }
  return choices;
}

/// Each second block of a module attends to a window.
void take_turns(config::ModuleGraph& model, const std::string& name) {
  for (config::ModuleNode& module : model.modules) {
    if (module.name != name) continue;
    config::LayerShape full = module.layers.back().shape;
    config::LayerShape windowed = full;
    windowed.window = 64;
    for (int turn = 0; turn < 3; ++turn) {
      module.add(windowed);
      module.add(full);
    }
  }
}

TEST(ChainCosts, PricesEqualLayersOnceThoughOthersLieBetween) {
  PlanningProblem problem = tiny_problem(8, 16, /*encoders=*/1, 3);
  take_turns(problem.model, "vision");
  const PlanChoice choice{.encoders = {ChainChoice{}}, .microbatches = 4};
  const ChainCosts vision(problem, choice, /*chain=*/0, /*is_cut=*/true);
  EXPECT_EQ(vision.units(), 9);
  EXPECT_EQ(vision.classes(), 4u);  // both ends, and the two shapes between
  EXPECT_EQ(vision.class_of(2), vision.class_of(4));
  EXPECT_NE(vision.class_of(3), vision.class_of(4));
}

/// How many encoders, of which the last or the first has a mesh; of sound and of images or alike.
struct Encoders {
  int count = 0;
  bool first_has_mesh = false;
  bool two_media = false;

  [[nodiscard]] std::size_t meshed() const {
    return first_has_mesh ? 0 : static_cast<std::size_t>(std::max(0, count - 1));
  }
  [[nodiscard]] PlanningProblem problem(std::int64_t samples, std::uint64_t seed) const {
    return two_media ? tiny_omni_problem(8, samples, seed) : tiny_problem(8, samples, count, seed);
  }
  [[nodiscard]] std::vector<PlanChoice> choices() const {
    return some_choices(static_cast<std::size_t>(count), meshed());
  }
};

constexpr Encoders kImagesMeshed{.count = 2, .two_media = true};
constexpr Encoders kSoundMeshed{.count = 2, .first_has_mesh = true, .two_media = true};

TEST(ChainCosts, StagesAddUpToThoseOfTheLayers) {
  for (const int kind : {0, 1, 2, 3, 4, 7, 8, 9}) {
    const Encoders encoders = kind == 8   ? kImagesMeshed
                              : kind == 9 ? kSoundMeshed
                                          : Encoders{.count = kind % 3};
    PlanningProblem problem = encoders.problem(16, 3);
    if (kind == 3) problem.model.modules[0].layers[1].layers = 6;
    if (kind == 4) problem.frozen = {"vision", "projector"};
    if (kind == 7) take_turns(problem.model, "vision");
    BatchDeals deals(problem);
    PlanJudge judge(problem, deals);
    ChainCutter cutter(problem);
    for (const PlanChoice& choice : encoders.choices()) {
      const std::vector<ChainCut> cuts = cutter.cut(choice, judge);
      const config::Plan plan = to_plan(problem, choice, cuts);
      config::check_plan(plan, "plan");
      const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
      const cost::LayerStageCosts layers(plan, problem.model, problem.cluster, pipeline);
      const cost::MicrobatchShape shape = part_of(mean_batch(problem), 4);
      for (std::size_t chain = 0; chain < cuts.size(); ++chain) {
        const ChainCosts& costs = judge.costs_of(choice, chain);
        std::vector<cost::StageCost> priced;
        for (std::size_t each = 0; each < costs.classes(); ++each)
          priced.push_back(costs.cost(each, shape));
        const std::string name =
            chain + 1 == cuts.size() ? "backbone" : encoders_of(problem)[encoders.meshed()]->name;
        std::size_t module = 0;
        while (pipeline.modules[module].name != name) ++module;
        for (std::size_t stage = 0; stage + 1 < cuts[chain].size(); ++stage) {
          const std::int64_t end = cuts[chain][stage + 1];
          const cost::StageCost sum = cost_of_stage(
              costs, priced, costs.count(cuts[chain][stage], end), costs.class_of(end - 1));
          const cost::StageCost whole =
              layers.cost(static_cast<int>(module), static_cast<int>(stage), shape);
          const std::string where =
              describe(problem, choice) + " " + name + " stage " + std::to_string(stage);
          EXPECT_EQ(sum.forward, whole.forward) << where;
          // Parameters that stay whole over a step are known of the plan alone.
          const auto near = [&](Nanoseconds a, Nanoseconds b, Nanoseconds of) {
            EXPECT_NEAR(double(a.count), double(b.count), 0.05 * double(of.count)) << where;
          };
          near(sum.forward_exposed, whole.forward_exposed, whole.forward);
          EXPECT_EQ(sum.input_gradient, whole.input_gradient) << where;
          near(sum.gradient_exposed, whole.gradient_exposed, whole.input_gradient);
          EXPECT_EQ(sum.weight_gradient, whole.weight_gradient) << where;
          EXPECT_EQ(sum.kept, whole.kept) << where;
          EXPECT_EQ(sum.boundary, whole.boundary) << where;
        }
      }
    }
  }
}

TEST(PlanJudge, AgreesWithTheSimulatorWhereNoLinkIsShared) {
  for (const int count : {0, 1, 2}) {
    const Encoders encoders{.count = count};
    const PlanningProblem problem = encoders.problem(24, 5);
    BatchDeals deals(problem);
    PlanJudge judge(problem, deals);
    ChainCutter cutter(problem);
    for (const PlanChoice& choice : encoders.choices()) {
      const std::vector<ChainCut> cuts = cutter.cut(choice, judge);
      const PlanVerdict verdict = judge.judge(choice, cuts, 0, 2);
      const config::Plan plan = to_plan(problem, choice, cuts);
      const cost::LayerStageCosts costs(plan, problem.model, problem.cluster,
                                        schedule::pipeline_of(plan));
      const simulate::Simulation simulation =
          simulate::simulate(plan, costs, problem.cluster,
                             {.steps = 2,
                              .samples = {.kind = simulate::SampleSource::Kind::kBatches,
                                          .recorded = {},
                                          .batches = &problem.batches},
                              .network = {.share_links = false}});
      for (std::size_t step = 0; step < 2; ++step) {
        const auto expected = static_cast<double>(simulation.steps[step].count);
        // Sizes are rounded, samples dealt with less effort, a round's features travel at once.
        EXPECT_NEAR(static_cast<double>(verdict.steps[step].count), expected, 0.03 * expected)
            << describe(problem, choice);
      }
      if (!choice.has_colocated()) continue;
      const auto held = static_cast<double>(simulation.fullest.memory.total().count);
      EXPECT_NEAR(static_cast<double>(verdict.peak.count), held, 0.05 * held)
          << describe(problem, choice);
    }
  }
}

TEST(PlanJudge, AgreesWithTheSimulatorOnMicrobatchesOfTwoMedia) {
  for (const Encoders& encoders : {kImagesMeshed, kSoundMeshed}) {
    const PlanningProblem problem = encoders.problem(24, 5);
    BatchDeals deals(problem);
    PlanJudge judge(problem, deals);
    ChainCutter cutter(problem);
    for (const PlanChoice& choice : encoders.choices()) {
      const std::vector<ChainCut> cuts = cutter.cut(choice, judge);
      const config::Plan plan = to_plan(problem, choice, cuts);
      const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
      const cost::LayerStageCosts costs = costs_on(problem, plan);
      std::vector<cost::Media> media;
      for (int module = 0; module < std::ssize(pipeline.modules); ++module)
        media.push_back(costs.media(module));
      for (std::size_t batch = 0; batch < 2; ++batch) {
        const PlanVerdict verdict = judge.judge(choice, cuts, batch, batch + 1);
        const simulate::Simulation simulation = simulate::simulate(
            plan, costs, problem.cluster,
            {.samples = {.kind = simulate::SampleSource::Kind::kGiven,
                         .given = {simulate::deal_samples(pipeline, media, problem.batches[batch],
                                                          deals.buckets(plan, batch))}},
             .network = {.share_links = false}});
        const auto expected = static_cast<double>(simulation.steps[0].count);
        EXPECT_NEAR(static_cast<double>(verdict.steps[0].count), expected, 0.02 * expected)
            << describe(problem, choice);
        const auto held = static_cast<double>(simulation.fullest.memory.total().count);
        EXPECT_NEAR(static_cast<double>(verdict.peak.count), held, 0.06 * held)
            << describe(problem, choice);
      }
    }
  }
}

TEST(BatchDeals, DealsAsTheTrainerDoesWithTheLeastRoom) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    PlanningProblem problem = tiny_problem(8, 40, 1, seed);
    BatchDeals deals(problem);
    for (const std::int64_t rounds : {1, 2, 3, 5, 8}) {
      PlanChoice choice{.microbatches = rounds};
      choice.backbone.mesh.dp_replicate = 4;
      choice.encoders.resize(1);
      config::Plan plan = to_plan(problem, choice, {{0, 6}});
      plan.batch.capacity_tokens = deals.capacity(plan, problem.batches.size());
      const cost::LayerStageCosts costs = costs_on(problem, plan);
      const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
      std::int64_t fullest = 0;
      for (std::size_t batch = 0; batch < problem.batches.size(); ++batch) {
        const schedule::StepPlan& step = deals.step(plan, batch);
        EXPECT_EQ(step, simulate::StepDealer(plan, pipeline, costs).plan(problem.batches[batch]));
        for (const schedule::PackedBins& own : step.microbatches) {
          EXPECT_EQ(own.bins(), rounds) << "seed " << seed;
          for (std::int64_t bin = 0; bin < own.bins(); ++bin) {
            std::int64_t tokens = 0;
            for (const std::int32_t each : own.bin(bin))
              tokens += problem.batches[batch][each].tokens;
            fullest = std::max(fullest, tokens);
          }
        }
        EXPECT_EQ(simulate_on(problem, plan, deals, batch, batch + 1).steps,
                  simulate_on(problem, plan, batch, batch + 1).steps);
      }
      EXPECT_EQ(plan.batch.capacity_tokens.count, fullest);
      problem.longest_sample = {2 * fullest};
      EXPECT_EQ(deals.capacity(plan, problem.batches.size()), problem.longest_sample);
      problem.longest_sample = {};
    }
  }
}

/// The judge's dispatch of a batch is the trainer's, but for the effort of balancing.
TEST(BatchDeals, HasBucketsThatAreTheDispatchOfTheTrainer) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const PlanningProblem problem = tiny_problem(8, 40, 1, seed);
    BatchDeals deals(problem, /*evaluations=*/0);
    for (const std::int64_t replicas : {2, 4})
      for (const std::int64_t shards : {1, 2})
        for (const std::int64_t rounds : {2, 3}) {
          PlanChoice choice{.microbatches = rounds};
          choice.backbone.mesh.dp_replicate = replicas / shards;
          choice.backbone.mesh.dp_shard = shards;
          choice.encoders.resize(1);
          config::Plan plan = to_plan(problem, choice, {{0, 6}});
          plan.batch.capacity_tokens = {1'000'000};
          const cost::LayerStageCosts costs = costs_on(problem, plan);
          const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
          const schedule::StepPlan step =
              simulate::StepDealer(plan, pipeline, costs).plan(problem.batches[0]);
          const std::vector<std::int32_t>& bucket_of = deals.buckets(plan, 0);
          for (std::int32_t replica = 0; replica < replicas; ++replica)
            for (std::int64_t round = 0; round < rounds; ++round)
              for (const std::int32_t sample : step.microbatches[replica].bin(round))
                EXPECT_EQ(bucket_of[sample], round * replicas + replica)
                    << "seed " << seed << ", " << replicas << " replicas, " << shards << " shards";
        }
  }
}

/// Where each bucket is one sample there is one way to level them: only the order is left.
TEST(BatchDeals, RunsTheRoundsOfTheTrainerInItsOrder) {
  PlanningProblem problem = tiny_problem(8, 28, 0, 3);
  for (std::int64_t i = 0; i < 28; ++i) problem.batches[0][i] = {.tokens = 100 + 37 * (i * 5 % 28)};
  BatchDeals deals(problem);
  for (const std::int64_t replicas : {1, 2, 4, 7}) {
    PlanChoice choice{.microbatches = 28 / replicas};
    choice.backbone.mesh.dp_replicate = replicas;
    const config::Plan plan = to_plan(problem, choice, {{0, 6}});
    const std::vector<std::int32_t>& bucket_of = deals.buckets(plan, 0);
    const schedule::StepPlan& step = deals.step(plan, 0);
    for (const schedule::PackedBins& own : step.microbatches) {
      ASSERT_EQ(own.bins(), choice.microbatches);
      for (std::int64_t round = 0; round < own.bins(); ++round)
        for (const std::int32_t sample : own.bin(round))
          EXPECT_EQ(bucket_of[sample] / replicas, round) << replicas << " replicas";
    }
  }
}

/// Attention makes one long text as dear as many short ones, which have more tokens by far.
TEST(BatchDeals, DealsLongTextsBesideShortOnesAsTheTrainerDoesWithTheLeastRoom) {
  for (std::int64_t longest = 40'000; longest <= 76'000; longest += 4000) {
    PlanningProblem problem = tiny_problem(8, 100, 0, 1);
    for (std::vector<simulate::SampleSize>& batch : problem.batches) {
      for (simulate::SampleSize& sample : batch) sample.tokens += 1000;
      batch[0].tokens = longest;
    }
    BatchDeals deals(problem);
    PlanChoice choice{.microbatches = 1};
    choice.backbone.mesh.dp_replicate = 2;
    config::Plan plan = to_plan(problem, choice, {{0, 6}});
    plan.batch.capacity_tokens = deals.capacity(plan, problem.batches.size());
    const cost::LayerStageCosts costs = costs_on(problem, plan);
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    for (std::size_t batch = 0; batch < problem.batches.size(); ++batch)
      EXPECT_EQ(deals.step(plan, batch),
                simulate::StepDealer(plan, pipeline, costs).plan(problem.batches[batch]))
          << longest << " tokens";
  }
}

TEST(BatchDeals, GivesEqualSamplesNoMoreRoomThanTheyTake) {
  PlanningProblem problem = tiny_problem(8, 32, 0, 6);
  for (auto& batch : problem.batches)
    for (simulate::SampleSize& sample : batch) sample = {.tokens = 100};
  BatchDeals deals(problem);
  PlanChoice choice{.microbatches = 4};
  choice.backbone.mesh.dp_shard = 4;
  EXPECT_EQ(deals.capacity(to_plan(problem, choice, {{0, 6}}), 2), Tokens{200});
}

}  // namespace
}  // namespace tributary::plan
