#include "simulate/samples/deal_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "core/error.h"
#include "core/random.h"
#include "schedule/pipeline/count_rounds.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/recorded_steps.h"
#include "tests/simulate/plan_case.h"
#include "tests/simulate/run_files.h"

namespace tributary::simulate {
namespace {

using config::Balance;
using config::Packing;

/// A backbone of `replicas`, with an encoder on as many ranks of its own.
config::Plan plan_of(std::int64_t replicas, bool shares_shards) {
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules) {
    module.mesh = {.dp_replicate = shares_shards ? 1 : replicas,
                   .dp_shard = shares_shards ? replicas : 1};
    module.stages.clear();
    module.ranks.clear();
    for (std::int64_t rank = 0; rank < replicas; ++rank)
      module.ranks.push_back(module.name == "backbone" ? rank : replicas + rank);
  }
  plan.batch.global_samples = 48;
  return plan;
}

/// What a replica of a run writes of a step: docs/formats/run_directory.md.
std::string line_of(const schedule::PackedBins& own, const std::vector<SampleSize>& samples) {
  std::ostringstream line;
  line << "{\"step\": 1, \"microbatches\": [";
  for (std::int64_t bin = 0; bin < own.bins(); ++bin) {
    std::int64_t sums[6] = {};
    for (const std::int32_t place : own.bin(bin)) {
      const SampleSize& size = samples[place];
      const std::int64_t of_item = size.items > 0 ? size.patches / size.items : 0;
      const std::int64_t numbers[6] = {size.tokens,  size.tokens * size.tokens,      1,
                                       size.patches, size.items * of_item * of_item, size.items};
      for (int i = 0; i < 6; ++i) sums[i] += numbers[i];
    }
    line << (bin == 0 ? "[" : ", [");
    for (int i = 0; i < 6; ++i) line << (i == 0 ? "" : ", ") << sums[i];
    line << ']';
  }
  line << "]}\n";
  return line.str();
}

std::vector<SampleSize> draw_sizes(std::uint64_t seed) {
  RandomStream random(seed, "sizes");
  std::vector<SampleSize> samples;
  for (int i = 0; i < 48; ++i) {
    const std::int64_t items = random.between(0, 3);
    samples.push_back({.tokens = random.between(1, 1000),
                       .patches = items * random.between(1, 400),
                       .items = items});
  }
  return samples;
}

/// What a run with these sizes would have recorded, by the trainer's planning, is what a simulation
/// with them has.
TEST(StepDealer, MakesTheMicrobatchesThatARunRecords) {
  const TableCosts costs(true);
  const config::Cluster cluster = small_cluster(8);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomStream random(seed, "plan");
    const bool shares_shards = random.below(2) == 0;
    config::Plan plan = plan_of(random.between(1, 4), shares_shards);
    plan.batch.balance =
        std::array{Balance::kNone, Balance::kLpt, Balance::kLpt2d}[random.below(3)];
    plan.batch.packing = std::array{Packing::kNone, Packing::kOnlineBestFit,
                                    Packing::kBestFitDecreasing, Packing::kLevel}[random.below(4)];
    if (plan.batch.packing == Packing::kLevel) plan.batch.balance = Balance::kLpt2d;
    const std::vector<SampleSize> samples = draw_sizes(seed);
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    StepDealer dealer(plan, pipeline, costs);
    // As train/balance/step_planner.cpp asks.
    std::vector<schedule::SampleLoad> loads;
    for (const SampleSize& size : samples) loads.push_back(dealer.load_of(size));
    const std::int64_t replicas = std::ssize(plan.find("backbone")->ranks);
    const schedule::StepPlan step = schedule::plan_step(
        {.samples = loads,
         .replicas = replicas,
         .meeting = shares_shards && replicas > 1 ? schedule::Meeting::kMicrobatch
                                                  : schedule::Meeting::kStep,
         .balance = plan.batch.balance,
         .packing = plan.batch.packing,
         .microbatches = plan.batch.microbatches,
         .capacity = {1000}});
    const RunFiles run;
    for (std::size_t replica = 0; replica < step.microbatches.size(); ++replica)
      run.write(replica == 0 ? "shapes.jsonl" : "shapes-" + std::to_string(replica) + ".jsonl",
                line_of(step.microbatches[replica], samples));
    const RecordedSteps recorded = read_recorded_steps(run.path(), 0);
    const StepShapes shapes = dealer.deal(samples);
    ASSERT_EQ(shapes.size(), 2U);
    const auto& backbone = shapes[schedule::backbone_of(pipeline)];
    ASSERT_EQ(backbone.size(), recorded[0].size());
    for (std::size_t replica = 0; replica < backbone.size(); ++replica) {
      auto padded = recorded[0][replica];
      for (const cost::MicrobatchShape& each : padded) EXPECT_LE(each.backbone.tokens, 1000);
      ASSERT_LE(padded.size(), backbone[replica].size());
      padded.resize(backbone[replica].size(), idle_microbatch());
      EXPECT_EQ(padded, backbone[replica]) << "seed " << seed;
    }
    if (replicas > 1) continue;  // encoders have equal parts where the run did not record more
    SimulationOptions given{.samples = {.kind = SampleSource::Kind::kGiven}};
    given.samples.given = {shapes};
    EXPECT_EQ(simulate(plan, costs, cluster, given).steps,
              simulate_recorded(plan, costs, cluster, {}, recorded).steps);
  }
}

TEST(StepDealer, TakesAsManyMicrobatchesAsTheSamplesNeed) {
  const TableCosts costs(false);
  config::Plan plan = text_plan();
  plan.batch.global_samples = 6;
  const auto rounds = [&](std::int64_t tokens) {
    const Simulation of = simulate(
        plan, costs, small_cluster(4),
        {.samples = {.kind = SampleSource::Kind::kRecorded,
                     .recorded = {.sizes = {{.tokens = tokens}, {.tokens = tokens - 1}}}}});
    return of.program.pipeline().microbatches;
  };
  EXPECT_EQ(rounds(1000), 3);  // three samples a replica, none fits beside another
  EXPECT_EQ(rounds(500), 2);
  EXPECT_EQ(rounds(300), 1);
}

TEST(StepDealer, LoadsAreTheWorkOfEncodersAndOfTheBackbone) {
  const TableCosts costs(true);
  const config::Plan plan = vision_plan();
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  StepDealer dealer(plan, pipeline, costs);
  // A million FLOPs a token on each of two stages, and a patch on one: 1 TFLOP/s is 1000 a ns.
  const schedule::SampleLoad load = dealer.load_of({.tokens = 10, .patches = 7, .items = 1});
  EXPECT_EQ(load.tokens.count, 10);
  EXPECT_EQ(load.chains[1].time.count, 2 * 10 * 1000);
  EXPECT_EQ(load.chains[0].time.count, 7 * 1000);
  EXPECT_EQ(dealer.load_of({.tokens = 10}).chains[0].time.count, 0);
}

TEST(StepDealer, NamesSoundThatNothingEncodes) {
  const TableCosts costs(true);
  const config::Plan plan = vision_plan();
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  StepDealer dealer(plan, pipeline, costs);
  EXPECT_THAT([&] { (void)dealer.load_of({.tokens = 10, .frames = 7, .clips = 1}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "does not encode sound beside images; where: sizes of samples; found: 7")));
  // As often as it is asked.
  EXPECT_THROW((void)dealer.load_of({.tokens = 10, .frames = 7, .clips = 1}), Error);
}

TEST(StepDealer, RefusesPatchesThatNothingEncodes) {
  const config::Plan plan = text_plan();
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const TableCosts costs(false);
  StepDealer dealer(plan, pipeline, costs);
  EXPECT_GT(dealer.load_of({.tokens = 10}).chains[1].time.count, 0);
  EXPECT_THAT([&] { (void)dealer.load_of({.tokens = 10, .patches = 64, .items = 1}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "model encodes no patches; where: sizes of samples; found: 64 patches")));
}

schedule::PipelineModule interleaved(int stages, int group) {
  return {.name = "module" + std::to_string(stages),
          .order = config::PipelineOrder::kInterleaved,
          .stages = stages,
          .chunks = 2,
          .group = group};
}

TEST(CountRounds, IsTheLeastThatAllOrdersTake) {
  const auto fits = [](const schedule::PipelineModule& module, int count) {
    return count % module.group == 0 || count % module.group >= module.stages;
  };
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "rounds");
    schedule::Pipeline pipeline;
    for (std::uint64_t i = 0; i <= random.below(3); ++i) {
      const int stages = static_cast<int>(random.between(1, 7));
      pipeline.modules.push_back(
          interleaved(stages, stages + static_cast<int>(random.between(0, 3))));
    }
    const auto fullest = static_cast<std::size_t>(random.between(0, 30));
    int min = std::max(1, static_cast<int>(fullest));
    while (!std::all_of(pipeline.modules.begin(), pipeline.modules.end(),
                        [&](const auto& module) { return fits(module, min); }))
      ++min;
    EXPECT_EQ(schedule::count_rounds(pipeline, fullest), min) << "seed " << seed;
  }
}

TEST(CountRounds, NamesTheOrderThatTakesNone) {
  schedule::Pipeline pipeline;
  pipeline.modules = {{.name = "vision"}, interleaved(4, 3)};
  EXPECT_THAT([&] { (void)schedule::count_rounds(pipeline, 5); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("where: modules.module4.schedule"),
                                 testing::HasSubstr("found: interleaved"))));
  pipeline.modules = {interleaved(997, 997), interleaved(1009, 1009)};  // 1,005,973 at least
  EXPECT_THAT([&] { (void)schedule::count_rounds(pipeline, 5); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "interleaved of 997 stages in module997, interleaved of 1009 stages")));
}

}  // namespace
}  // namespace tributary::simulate
