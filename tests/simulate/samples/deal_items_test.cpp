#include "simulate/samples/deal_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "core/random.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/recorded_steps.h"
#include "simulate/samples/deal_step.h"
#include "tests/simulate/plan_case.h"

namespace tributary::simulate {
namespace {

using config::Placement;

/// A backbone of `takers` replicas; an encoder of `replicas` on the same ranks or on its own.
config::Plan plan_of(std::int64_t takers, std::int64_t replicas, Placement placement,
                     std::int64_t passes = 1) {
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules) {
    const bool is_backbone = module.name == "backbone";
    const std::int64_t ranks = is_backbone ? takers : replicas;
    module.mesh = {.dp_replicate = ranks};
    module.stages.clear();
    module.ranks.clear();
    const std::int64_t first = is_backbone || placement == Placement::kColocated ? 0 : takers;
    for (std::int64_t rank = 0; rank < ranks; ++rank) module.ranks.push_back(first + rank);
    if (is_backbone) continue;
    module.placement = placement;
    module.passes = placement == Placement::kColocated ? passes : 1;
  }
  plan.batch.global_samples = 24;
  plan.batch.microbatches = 3;
  plan.batch.packing = config::Packing::kLevel;
  plan.batch.balance = config::Balance::kLpt2d;
  plan.batch.capacity_tokens = {4096};
  return plan;
}

std::vector<SampleShape> draw_shapes(std::uint64_t seed, std::int64_t samples) {
  RandomStream random(seed, "shapes");
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < samples; ++i) {
    SampleShape& shape = shapes.emplace_back();
    shape.tokens = {random.between(20, 900)};
    for (std::int64_t image = random.between(0, 4); image > 0; --image)
      shape.images.push_back({1, random.between(2, 20), random.between(2, 20)});
    if (random.below(4) == 0) shape.videos.push_back({random.between(2, 8), 8, 10});
  }
  return shapes;
}

/// The module that is not the backbone.
int encoder_of(const schedule::Pipeline& pipeline) {
  return schedule::backbone_of(pipeline) == 0 ? 1 : 0;
}

double tokens_of(const std::vector<cost::MicrobatchShape>& passes) {
  return std::accumulate(passes.begin(), passes.end(), 0.0,
                         [](double sum, const auto& pass) { return sum + pass.encoder.tokens; });
}

TEST(ItemDealer, GivesPicturesOfOneSampleToSeveralReplicas) {
  const TableCosts costs(true);
  const config::Plan plan = plan_of(2, 2, Placement::kColocated);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const int encoder = encoder_of(pipeline);
  std::vector<SampleShape> samples(24);
  for (SampleShape& sample : samples) sample.tokens = {10};
  samples[5].images.assign(6, {1, 4, 5});
  StepDealer dealer(plan, pipeline, costs);
  const StepShapes by_item = dealer.deal(samples);
  EXPECT_EQ(tokens_of(by_item[encoder][0]), 60);
  EXPECT_EQ(tokens_of(by_item[encoder][1]), 60);
  EXPECT_EQ(by_item[encoder][0][0].encoder.squared_tokens, 3 * 400);
  EXPECT_EQ(by_item[encoder][0][0].encoder.sequences, 3);
  std::vector<SampleSize> sizes;
  for (const SampleShape& sample : samples) sizes.push_back(size_of(sample));
  const StepShapes by_sample = dealer.deal(sizes);
  EXPECT_EQ(tokens_of(by_sample[encoder][0]) * tokens_of(by_sample[encoder][1]), 0)
      << "without shapes a sample is not parted";
  const auto backbone = schedule::backbone_of(pipeline);
  EXPECT_EQ(by_item[backbone], by_sample[backbone]);
}

TEST(ItemDealer, HasWhatDealMediaGivesTheSeats) {
  const TableCosts costs(true);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    RandomStream random(seed, "plan");
    const std::int64_t takers = random.between(1, 3);
    const bool is_colocated = random.below(2) == 0;
    const config::Plan plan =
        plan_of(takers, is_colocated ? takers : random.between(1, 4),
                is_colocated ? Placement::kColocated : Placement::kSeparate, random.between(1, 3));
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    const int module = encoder_of(pipeline);
    const schedule::PipelineModule& encoder = pipeline.modules[module];
    const std::vector<SampleShape> samples = draw_shapes(seed, 24);
    StepDealer dealer(plan, pipeline, costs);
    std::vector<SampleSize> sizes;
    for (const SampleShape& sample : samples) sizes.push_back(size_of(sample));
    const schedule::StepPlan step = dealer.plan(sizes);
    // TableCosts has 1e6 FLOPs for a patch: 1000 ns at 1 TFLOP/s.
    std::vector<schedule::MediaRound> rounds =
        schedule::list_media(samples, step.microbatches, {Modality::kImage, Modality::kVideo});
    schedule::deal_media(
        schedule::seats_of(plan.find(encoder.name)->mesh, plan.find("backbone")->mesh,
                           encoder.passes, encoder.takes_turns),
        [](const Grid& grid) { return 1000 * grid.patches(); }, rounds);
    const StepShapes shapes = dealer.deal(samples);
    std::vector<std::vector<double>> expected(static_cast<std::size_t>(encoder.replicas),
                                              std::vector<double>(shapes[module].front().size()));
    for (const schedule::MediaRound& round : rounds)
      for (const schedule::MediaItem& item : round)
        expected[item.seat][item.pass] += static_cast<double>(item.grid.patches());
    for (std::size_t replica = 0; replica < expected.size(); ++replica)
      for (std::size_t pass = 0; pass < expected[replica].size(); ++pass)
        EXPECT_EQ(shapes[module][replica][pass].encoder.tokens, expected[replica][pass])
            << "replica " << replica << " pass " << pass;
  }
}

/// The microbatches and media of a step, as a run records them.
std::pair<RecordedSteps, RecordedMedia> recorded_of(const schedule::StepPlan& step,
                                                    const std::vector<SampleShape>& samples) {
  RecordedSteps steps(1);
  for (const schedule::PackedBins& own : step.microbatches) {
    auto& replica = steps[0].emplace_back();
    for (std::int64_t bin = 0; bin < own.bins(); ++bin) {
      cost::MicrobatchShape& shape = replica.emplace_back(empty_shape());
      for (const std::int32_t place : own.bin(bin)) add_sample(shape, size_of(samples[place]));
    }
  }
  return {steps,
          {schedule::list_media(samples, step.microbatches, {Modality::kImage, Modality::kVideo})}};
}

TEST(ItemDealer, ARecordedStepIsSimulatedAsItsSamplesAre) {
  const TableCosts costs(true);
  for (const Placement placement : {Placement::kColocated, Placement::kSeparate}) {
    const std::int64_t replicas = placement == Placement::kColocated ? 2 : 3;
    const config::Plan plan = plan_of(2, replicas, placement);
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    const std::vector<std::vector<SampleShape>> samples{draw_shapes(7, 24)};
    StepDealer dealer(plan, pipeline, costs);
    std::vector<SampleSize> sizes;
    for (const SampleShape& sample : samples[0]) sizes.push_back(size_of(sample));
    const auto [steps, media] = recorded_of(dealer.plan(sizes), samples[0]);
    const config::Cluster cluster = small_cluster(8);
    SimulationOptions options;
    const Simulation replayed = simulate_recorded(plan, costs, cluster, options, steps, media);
    const Simulation shared = simulate_recorded(plan, costs, cluster, options, steps);
    options.samples = {.kind = SampleSource::Kind::kShapes, .shapes = &samples};
    EXPECT_EQ(simulate(plan, costs, cluster, options).steps, replayed.steps);
    if (placement == Placement::kColocated) {  // the backbone waits for the seat with the most
      EXPECT_GT(replayed.steps[0], shared.steps[0]) << "than for equal parts";
    }
  }
}

}  // namespace
}  // namespace tributary::simulate
