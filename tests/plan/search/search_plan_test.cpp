#include "plan/search/search_plan.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/run/run_config.h"
#include "core/error.h"
#include "plan/judge/batch_deals.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/explain_plan.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::RecomputePlan;

TEST(SearchPlan, FindsPlansWhereMemoryIsShort) {
  // Whole values and gradients stay on the stages of a sharded pipeline: an estimate that shards
  // them keeps only candidates that do not fit.
  PlanningProblem problem{
      .model = config::parse_graph_of_model(R"({"model_type": "llama", "hidden_size": 8192,
          "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
          "intermediate_size": 28672, "vocab_size": 128256, "tie_word_embeddings": false})",
                                            "test"),
      .cluster = config::read_cluster(TRIB_SOURCE_DIR "/configs/clusters/a100_8.yaml"),
      .devices = 256,
      .batches = {std::vector<simulate::SampleSize>(256, simulate::SampleSize{.tokens = 4096})}};
  const PlanSearch found = search_plan(problem, {.candidates = {.keep = 60}});
  ASSERT_FALSE(found.plans.empty()) << found.certificate.limit;
  EXPECT_LE(found.plans.front().peak, problem.memory());
  EXPECT_GE(found.plans.front().step, found.certificate.lower_bound);
}

/// Few samples and many, long ones beside short ones, equal ones, with encoders anywhere.
TEST(SearchPlan, PlansAreWorthInASimulationWhatTheSearchSays) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomStream random(seed, "worth");
    const int encoders = static_cast<int>(random.between(0, 2));
    PlanningProblem problem =
        tiny_problem(random.between(1, 12), random.between(1, 40), encoders, seed);
    const std::int64_t kind = random.between(0, 2);
    for (std::vector<simulate::SampleSize>& batch : problem.batches)
      for (simulate::SampleSize& sample : batch) {
        if (kind == 1 && random.between(0, 9) == 0) sample.tokens = random.between(20'000, 200'000);
        if (kind == 2) sample = {.tokens = 500};
      }
    if (encoders > 0 && random.between(0, 3) == 0) problem.frozen = {"vision"};
    const PlanSearch search =
        search_plan(problem, {.candidates = {.keep = 60}, .finalists = 6, .threads = 2});
    for (const FoundPlan& found : search.plans) {
      const simulate::Simulation simulation = simulate_on(problem, found.plan, 2);
      EXPECT_EQ(simulation.distribution.mean, found.step)
          << describe(problem, found.choice) << ", seed " << seed;
      EXPECT_EQ(simulation.program.pipeline().microbatches, found.plan.batch.microbatches);
    }
  }
}

/// Equal samples on one device in one microbatch.
TEST(SearchPlan, ProvesTheOnlyPlanOptimal) {
  for (const std::int64_t samples : {1, 4}) {
    for (const int encoders : {0, 1}) {
      PlanningProblem problem = tiny_problem(1, samples, encoders, 5);
      const simulate::SampleSize sample{
          .tokens = 1'000, .patches = 512 * encoders, .items = 2 * encoders};
      problem.batches = {
          std::vector<simulate::SampleSize>(static_cast<std::size_t>(samples), sample)};
      problem.space.max_microbatches = 1;
      problem.space.recompute = {RecomputePlan::kNone};
      problem.space.placements = {config::Placement::kInline};
      const PlanSearch search = search_plan(problem);
      ASSERT_FALSE(search.plans.empty()) << search.certificate.limit;
      SCOPED_TRACE(describe(problem, search.plans.front().choice));
      EXPECT_EQ(search.certificate.status, Status::kOptimal);
      EXPECT_EQ(search.certificate.gap(), 0);
      EXPECT_LE(search.certificate.lower_bound, search.certificate.value);
      // Not by raising the bound: 2 ns for each of some 200 times.
      EXPECT_GE(search.certificate.lower_bound.count, search.certificate.value.count - 1'000);
    }
  }
}

TEST(SearchPlan, DoesNotDependOnTheNumberOfThreads) {
  PlanningProblem problem = tiny_problem(8, 24, 1, 11);
  const PlanSearch one = search_plan(problem, {.threads = 1});
  const PlanSearch four = search_plan(problem, {.threads = 4});
  ASSERT_EQ(one.plans.size(), four.plans.size());
  for (std::size_t i = 0; i < one.plans.size(); ++i) {
    EXPECT_EQ(one.plans[i].plan, four.plans[i].plan);
    EXPECT_EQ(one.plans[i].step, four.plans[i].step);
  }
  EXPECT_EQ(one.certificate.evaluations, four.certificate.evaluations);
}

TEST(SearchPlan, SaysOnHowManyBatchesLinksWereSharedAndFinishesTheFirstPlan) {
  for (const bool is_apart : {false, true}) {
    PlanningProblem problem = tiny_problem(4, 12, 1, 11);
    problem.batches.push_back(problem.batches[0]);
    if (!is_apart) problem.space.placements = {config::Placement::kInline};
    const auto batches = std::ssize(problem.batches);
    // No deals beyond the first batch for all: the best go on alone.
    const PlanSearch one = search_plan(problem, {.dealt = 1, .threads = 1});
    const PlanSearch four = search_plan(problem, {.dealt = 1, .threads = 4});
    ASSERT_FALSE(one.plans.empty()) << one.certificate.limit;
    ASSERT_EQ(one.plans.size(), four.plans.size());
    const FoundPlan& best = one.plans.front();
    EXPECT_EQ(best.simulated_batches, batches);
    EXPECT_EQ(best.step, simulate_on(problem, best.plan, batches).distribution.mean);
    for (std::size_t i = 0; i < one.plans.size(); ++i) {
      const FoundPlan& each = one.plans[i];
      EXPECT_EQ(each.plan, four.plans[i].plan);
      EXPECT_EQ(each.step, four.plans[i].step);
      EXPECT_EQ(each.simulated_batches, four.plans[i].simulated_batches);
      EXPECT_LE(best.step, each.step);
    }
    // Messages of one batch alone: its step says how long those of the others are.
    std::int64_t messages = 50;
    PlanSearch few = search_plan(problem, {.messages = messages});
    while (few.plans.front().simulated_batches == 0 && messages < 1'000'000)
      few = search_plan(problem, {.messages = messages += messages / 4});
    ASSERT_EQ(few.plans.front().simulated_batches, 1);
    const Nanoseconds all = simulate_on(problem, few.plans.front().plan, batches).distribution.mean;
    EXPECT_NEAR(double(few.plans.front().step.count), double(all.count), 0.05 * double(all.count));
    EXPECT_NE(few.certificate.status, Status::kOptimal);
  }
}

TEST(SearchPlan, TakesThePassesThatHideTheFeaturesOfFrozenEncodersOnSlowLinks) {
  PlanningProblem problem{
      .model = config::parse_graph_of_model(R"({"model_type": "qwen2_5_vl", "hidden_size": 2048,
          "num_hidden_layers": 10, "num_attention_heads": 16, "num_key_value_heads": 8,
          "intermediate_size": 8192, "vocab_size": 32000, "tie_word_embeddings": false,
          "vision_config": {"depth": 24, "hidden_size": 1280, "num_heads": 20,
                            "intermediate_size": 5120, "out_hidden_size": 2048}})",
                                            "test"),
      .cluster = config::read_cluster(TRIB_SOURCE_DIR "/configs/clusters/ethernet.yaml"),
      .devices = 4,
      .batches = {simulate::draw_mixture(1, 0, 32), simulate::draw_mixture(1, 1, 32)},
      .frozen = {"vision"}};
  const PlanSearch found = search_plan(problem);
  ASSERT_FALSE(found.plans.empty()) << found.certificate.limit;
  const FoundPlan& best = found.plans.front();
  ASSERT_TRUE(best.choice.has_colocated()) << describe(problem, best.choice);
  config::Plan plan = best.plan;
  for (config::ModulePlan& module : plan.modules) {
    if (module.placement != config::Placement::kColocated) continue;
    for (module.passes = 1; module.passes <= best.choice.microbatches; module.passes *= 2)
      EXPECT_LE(double(best.step.count),
                1.015 * double(simulate_on(problem, plan, 2).distribution.mean.count))
          << module.passes << " passes instead of those of " << describe(problem, best.choice);
  }
}

TEST(SearchPlan, PlacesTwoEncodersOnRanksOfTheirOwn) {
  PlanningProblem problem = tiny_problem(12, 24, 2, 7);
  problem.space.placements = {config::Placement::kSeparate};
  const PlanSearch search = search_plan(problem);
  ASSERT_FALSE(search.plans.empty()) << search.certificate.limit;
  for (const FoundPlan& found : search.plans) {
    config::check_plan(found.plan, "plan");
    for (const char* name : {"audio", "vision"})
      EXPECT_EQ(found.plan.find(name)->placement, config::Placement::kSeparate);
  }
  EXPECT_LE(search.certificate.lower_bound, search.certificate.value);
}

TEST(SearchPlan, IsNotSlowerWhereExpertsMayBeShared) {
  PlanningProblem problem = tiny_problem(8, 16, 0, 2);
  problem.model = tiny_model(2, 0, /*experts=*/16);
  problem.space.max_ep = 1;
  const PlanSearch whole = search_plan(problem);
  problem.space.max_ep = 8;
  const PlanSearch shared = search_plan(problem);
  ASSERT_FALSE(whole.plans.empty()) << whole.certificate.limit;
  ASSERT_FALSE(shared.plans.empty()) << shared.certificate.limit;
  EXPECT_LE(shared.certificate.value, whole.certificate.value);
  EXPECT_LE(shared.certificate.lower_bound, shared.certificate.value);
}

TEST(SearchPlan, PlansExpertsBesideAnEncoder) {
  for (const std::int64_t devices : {16, 64}) {
    PlanningProblem problem = tiny_problem(devices, 64, 1, 2);
    problem.model = tiny_model(2, 1, /*experts=*/16);
    const PlanSearch search = search_plan(problem, {.candidates = {.keep = 60}});
    ASSERT_FALSE(search.plans.empty()) << search.certificate.limit;
    EXPECT_LE(search.certificate.lower_bound, search.certificate.value);
  }
}

TEST(SearchPlan, TakesAClusterOfJustThePlansDevices) {
  PlanningProblem problem = tiny_problem(4, 6, 0, 2);
  problem.model = tiny_model(2, 0, /*experts=*/16);
  problem.space.long_sample = 0;
  const PlanSearch wide = search_plan(problem);
  problem.cluster = cost::small_cluster(4);
  problem.cluster.device = tiny_problem(4, 6, 0, 2).cluster.device;
  const PlanSearch just = search_plan(problem);
  ASSERT_FALSE(just.plans.empty()) << just.certificate.limit;
  EXPECT_EQ(just.certificate.value, wide.certificate.value);
  EXPECT_EQ(just.certificate.lower_bound, wide.certificate.lower_bound);
}

TEST(SearchPlan, CutsSequencesWhereNothingElseMayBe) {
  for (const bool ring : {true, false}) {
    PlanningProblem problem = tiny_problem(4, 6, 1, 13);
    problem.space.max_tp = problem.space.max_stages = problem.space.max_replicas = 1;
    problem.space.placements = {config::Placement::kInline};
    problem.space.long_sample = 0;
    (ring ? problem.space.max_ulysses : problem.space.max_cp) = 1;
    const PlanSearch search = search_plan(problem);
    ASSERT_FALSE(search.plans.empty()) << search.certificate.limit;
    const FoundPlan& best = search.plans.front();
    const config::MeshShape& mesh = best.choice.backbone.mesh;
    EXPECT_EQ(ring ? mesh.cp : mesh.ulysses, 4) << describe(problem, best.choice);
    EXPECT_EQ(mesh.world(), 4);
    EXPECT_TRUE(best.links_shared);
    EXPECT_EQ(best.step, simulate_on(problem, best.plan, 2).distribution.mean);
    EXPECT_LE(search.certificate.lower_bound, best.step);
    // What a run takes of the plan.
    const std::string path = testing::TempDir() + "/cut_sequences.json";
    std::ofstream(path) << config::write_plan(best.plan);
    config::RunConfig run;
    run.parallel.plan = path;
    const config::RunConfig planned = config::apply_plan(run);
    EXPECT_EQ(planned.parallel.cp.count, mesh.cp);
    EXPECT_EQ(planned.parallel.ulysses.count, mesh.ulysses);
  }
}

TEST(SearchPlan, ExplainsByWhatTheStepWouldBeWithOneThingChanged) {
  const PlanningProblem problem = tiny_problem(4, 12, 1, 9);
  const PlanSearch search = search_plan(problem);
  const PlanExplanation explanation = explain_plan(problem, search.plans.front(), 2);
  EXPECT_EQ(explanation.step, search.certificate.value);
  double shares = explanation.busy + explanation.communication;
  for (const auto& [cause, share] : explanation.idle) shares += share;
  EXPECT_NEAR(shares, 1, 1e-9);
  for (const Remedy& remedy : explanation.remedies) {
    if (remedy.change != "devices with twice the arithmetic") continue;
    PlanningProblem changed = problem;
    changed.cluster.device.matrix_flops_per_s *= 2;
    EXPECT_EQ(remedy.step, simulate_on(changed, search.plans.front().plan, 2).distribution.mean);
    EXPECT_GT(remedy.gain, 0);
  }
}

/// Of mean samples two are more than the longest, which is all the room that the plan asks for.
TEST(SearchPlan, ExplainsEvenSamplesWithAsManyMicrobatches) {
  PlanningProblem problem = tiny_problem(1, 5, 0, 3);
  problem.batches.resize(1);
  const std::int64_t tokens[] = {4000, 4000, 4000, 2000, 2000};
  for (std::size_t i = 0; i < 5; ++i) problem.batches[0][i].tokens = tokens[i];
  BatchDeals deals(problem);
  FoundPlan found{.choice = {.microbatches = 4}};
  found.plan = to_plan(problem, found.choice, {{0, units_of(problem.model.modules[0])}});
  found.plan.batch.capacity_tokens = deals.capacity(found.plan, 1);
  ASSERT_EQ(found.plan.batch.capacity_tokens, Tokens{4000});
  PlanningProblem even = problem;
  for (simulate::SampleSize& sample : even.batches[0]) sample.tokens = 3200;
  config::Plan roomy = found.plan;
  roomy.batch.capacity_tokens = {6400};
  const simulate::Simulation expected = simulate_on(even, roomy, 1);
  ASSERT_EQ(expected.program.pipeline().microbatches, 4);
  const PlanExplanation explanation = explain_plan(problem, found, 1);
  const auto remedy = std::ranges::find(explanation.remedies,
                                        "samples that are all of the mean size", &Remedy::change);
  ASSERT_NE(remedy, explanation.remedies.end());
  EXPECT_EQ(remedy->step, expected.distribution.mean);
}

TEST(SearchPlan, RefusesWhatCannotBePlanned) {
  const auto refuses = [](const char* words, const auto& change) {
    PlanningProblem problem = tiny_problem(4, 8, 1, 1);
    change(problem);
    EXPECT_THAT([&] { (void)search_plan(problem); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(words)));
  };
  refuses("where: devices", [](PlanningProblem& each) { each.devices = 65; });
  refuses("where: freeze", [](PlanningProblem& each) { each.frozen = {"depth"}; });
  refuses("no backbone",
          [](PlanningProblem& each) { each.model.modules.erase(each.model.modules.begin()); });
  refuses("behind the backbone", [](PlanningProblem& each) {
    each.model.edges.pop_back();
    each.model.edges.push_back({"backbone", "projector"});
  });
  refuses("where: space.placements; found: sliced", [](PlanningProblem& each) {
    each.space.placements.push_back(config::Placement::kSliced);
  });
  refuses("where: batches", [](PlanningProblem& each) { each.batches[1].pop_back(); });
}

}  // namespace
}  // namespace tributary::plan
