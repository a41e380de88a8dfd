#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/trace_of.h"
#include "tests/cost/stages/omni_case.h"
#include "tests/simulate/plan_case.h"

namespace tributary::simulate {
namespace {

using Kind = SampleSource::Kind;

/// A backbone with an encoder on its ranks, each of them a replica.
config::Plan colocated_plan(std::int64_t pp, std::int64_t dp, std::int64_t microbatches,
                            std::int64_t passes = 1, config::TrainMode train = {}) {
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules) {
    const bool is_encoder = module.name == "vision";
    module.ranks.clear();
    for (std::int64_t rank = 0; rank < pp * dp; ++rank) module.ranks.push_back(rank);
    module.mesh = is_encoder ? config::MeshShape{.dp_shard = pp * dp}
                             : config::MeshShape{.pp = pp, .dp_shard = dp};
    if (is_encoder) {
      module.placement = config::Placement::kColocated;
      module.train = train;
      module.passes = passes;
    } else if (pp == 1) {
      module.stages = {{.embed = true, .first = 0, .layers = 4, .head = true}};
    }
  }
  plan.batch.microbatches = microbatches;
  return plan;
}

/// Ten nanoseconds a token forward, twenty back; the encoder likewise for patches. A pass costs a
/// launch besides, whatever it has.
class LaunchedCosts final : public cost::StageCosts {
 public:
  [[nodiscard]] cost::StageCost cost(int module, int,
                                     const cost::MicrobatchShape& shape) const override {
    const auto size =
        static_cast<std::int64_t>(module > 0 ? shape.encoder.tokens : shape.backbone.tokens);
    return {.forward = {10 * size + kLaunch},
            .input_gradient = {10 * size + kLaunch},
            .weight_gradient = {10 * size},
            .kept = {100 * size},
            .forward_peak = {1000 * size},
            .boundary = {module > 0 ? 8 * size : 0}};
  }
  [[nodiscard]] cost::StageFlops flops(int module, int,
                                       const cost::MicrobatchShape& shape) const override {
    return {.all = {.causal = module > 0 ? shape.encoder.tokens : shape.backbone.tokens}};
  }
  [[nodiscard]] cost::StageState state(int module, int) const override {
    return {.parameters = {module > 0 ? 1000 : 5000},
            .gradients = {module > 0 ? 100 : 500},
            .optimizer = {10},
            .gathered = {module > 0 ? 77 : 55},
            .reduction = {300},
            .optimizer_step = {module > 0 ? 40 : 60},
            .host_step = {9},
            .process = {5}};
  }
  static constexpr std::int64_t kLaunch = 1000;
};

config::Cluster free_links() {
  config::Cluster cluster = small_cluster(8);
  cluster.levels = {{.name = "all", .ranks = 8, .bytes_per_s = 1e18}};
  cluster.device.overlap_slowdown = 1;
  return cluster;
}

SampleSource samples_of(std::vector<SampleSize> sizes) {
  return {.kind = Kind::kRecorded, .recorded = {.sizes = std::move(sizes)}};
}

TEST(ColocatedPlan, AStepIsEncodingThePipelineAndGoingBack) {
  for (const std::int64_t pp : {1, 2}) {
    for (const std::int64_t passes : {1, 2, 4}) {
      // 64 samples of 100 tokens and 50 patches: 8 a microbatch, 4 microbatches of 2 replicas.
      const config::Plan plan = colocated_plan(pp, 2, 4, passes);
      config::Plan of = plan;
      of.batch.global_samples = 64;
      of.batch.capacity_tokens = {800};
      const Simulation step =
          simulate(of, LaunchedCosts(), free_links(),
                   {.samples = samples_of({{.tokens = 100, .patches = 50, .items = 1}})});
      const std::int64_t launch = LaunchedCosts::kLaunch;
      const std::int64_t own = 64 / (2 * pp) * 50;  // patches of a rank
      const std::int64_t encode = 30 * own + 2 * passes * launch;
      const std::int64_t microbatch = 30 * 800 + 2 * launch;
      const std::int64_t train = (4 + pp - 1) * microbatch;
      // The backbone's reduction is hidden behind the encoder's backward.
      EXPECT_NEAR(double(step.times.makespan.count), double(encode + train + 300 + 40 + 60 + 9), 20)
          << "pp " << pp << ", " << passes << " passes";
      EXPECT_EQ(step.ranks, 2 * pp);
      EXPECT_DOUBLE_EQ(step.utilisation.flops.all.causal,
                       64.0 * (100 * static_cast<double>(pp) + 50));
      EXPECT_EQ(step.program.lanes(), pp + 1);  // of equal replicas one
      EXPECT_LE(bound_of(step).value(), step.times.makespan);
    }
  }
}

TEST(ColocatedPlan, TurnsUseTheTimeThatThePipelineWaits) {
  config::Plan plan = colocated_plan(2, 2, 4, 2);
  plan.batch.global_samples = 64;
  plan.batch.capacity_tokens = {800};
  config::ModulePlan& vision =
      *std::ranges::find(plan.modules, "vision", &config::ModulePlan::name);
  vision.mesh = {.dp_replicate = 4};
  const auto play = [&](bool turns) {
    vision.turns = turns;
    return simulate(plan, LaunchedCosts(), free_links(),
                    {.samples = samples_of({{.tokens = 100, .patches = 50, .items = 1}})});
  };
  const Simulation before_and_behind = play(false);
  const Simulation step = play(true);
  // One pass of a rank encodes 400 patches; the first forward and the last backward stay outside.
  const std::int64_t launch = LaunchedCosts::kLaunch;
  const std::int64_t forward = 10 * 400 + launch;
  const std::int64_t backward = 20 * 400 + launch;
  const std::int64_t train = 5 * (30 * 800 + 2 * launch);
  EXPECT_LE(step.times.makespan + Nanoseconds{forward}, before_and_behind.times.makespan);
  EXPECT_GE(step.times.makespan.count, forward + train + backward);
  EXPECT_LE(bound_of(step).value(), step.times.makespan);
  EXPECT_EQ(step.program.lanes(), 2 + 2);  // of equal replicas one on each stage
  EXPECT_EQ(step.ranks, 4);
  EXPECT_DOUBLE_EQ(step.utilisation.flops.all.causal,
                   before_and_behind.utilisation.flops.all.causal);
}

/// Adds a second encoder of the same samples.
void add_second(const config::MeshShape& mesh, std::int64_t passes, config::Plan& plan) {
  config::ModulePlan second = *plan.find("vision");
  second.name = "zoom";
  second.mesh = mesh;
  second.passes = passes;
  plan.modules.push_back(second);
  plan.edges.push_back({.from = "zoom", .to = "backbone"});
}

TEST(ColocatedPlan, TwoEncodersRunOneAfterTheOther) {
  for (const std::int64_t pp : {1, 2}) {
    config::Plan plan = colocated_plan(pp, 2, 4, 2);
    plan.batch.global_samples = 64;
    plan.batch.capacity_tokens = {800};
    add_second({.dp_shard = pp, .tp = 2}, 4, plan);
    const SimulationOptions options{.samples =
                                        samples_of({{.tokens = 100, .patches = 50, .items = 1}})};
    const Simulation step = simulate(plan, LaunchedCosts(), free_links(), options);
    const std::int64_t launch = LaunchedCosts::kLaunch;
    const auto encode = [&](std::int64_t replicas, std::int64_t passes) {
      return 30 * (64 / replicas * 50) + 2 * passes * launch;
    };
    const std::int64_t train = (4 + pp - 1) * (30 * 800 + 2 * launch);
    // Reductions are hidden, but for the last one; the steps follow each other.
    EXPECT_NEAR(double(step.times.makespan.count),
                double(encode(2 * pp, 2) + train + encode(pp, 4) + 300 + 40 + 40 + 60 + 9), 30)
        << "pp " << pp;
    EXPECT_EQ(step.ranks, 2 * pp);
    EXPECT_LE(bound_of(step).value(), step.times.makespan);
    for (config::ModulePlan& module : plan.modules)
      if (module.name != "backbone") {
        module.mesh = {.dp_replicate = 2 * pp};
        module.turns = true;
      }
    const Simulation with_turns = simulate(plan, LaunchedCosts(), free_links(), options);
    EXPECT_LE(bound_of(with_turns).value(), with_turns.times.makespan);
    if (pp > 1) {
      EXPECT_LT(with_turns.times.makespan, step.times.makespan);
    }
  }
}

TEST(ColocatedPlan, AheadUsesTheTimeThatThePipelineWaits) {
  config::Plan plan = colocated_plan(2, 2, 4, 2, config::TrainMode::kFrozen);
  plan.batch.global_samples = 64;
  plan.batch.capacity_tokens = {800};
  config::ModulePlan& vision =
      *std::ranges::find(plan.modules, "vision", &config::ModulePlan::name);
  vision.mesh = {.dp_replicate = 4};
  const auto play = [&](bool turns, bool ahead) {
    vision.turns = turns;
    vision.ahead = ahead;
    return simulate(plan, LaunchedCosts(), free_links(),
                    {.samples = samples_of({{.tokens = 100, .patches = 50, .items = 1}})});
  };
  const Simulation before = play(false, false);
  const Simulation turns = play(true, false);
  const Simulation step = play(false, true);
  const std::int64_t launch = LaunchedCosts::kLaunch;
  const std::int64_t forward = 10 * 400 + launch;
  const std::int64_t train = 5 * (30 * 800 + 2 * launch);
  EXPECT_LT(turns.times.makespan, before.times.makespan);
  EXPECT_LT(step.times.makespan, turns.times.makespan) << "no pass is before the pipeline";
  EXPECT_GE(step.times.makespan.count, train);
  EXPECT_LT(step.times.makespan.count, train + forward) << "the pipeline waits longer than a pass";
  EXPECT_LE(bound_of(step).value(), step.times.makespan);
  EXPECT_EQ(step.program.lanes(), 2 + 2);
  // The features of the next step, of a replica, are there at the end.
  EXPECT_EQ(step.memory_points[0].back().bytes - before.memory_points[0].back().bytes,
            Bytes{8 * 64 * 50 / 2});
}

TEST(ColocatedPlan, FoldedReplicasGiveTheSameStep) {
  for (const std::int64_t pp : {1, 2}) {
    for (const std::int64_t passes : {1, 3}) {
      const config::Plan plan = colocated_plan(pp, 4, 2, passes);
      // As slow between nodes as within them.
      config::Cluster cluster = small_cluster(8);
      cluster.levels = {{.name = "all", .ranks = 8, .bytes_per_s = 1e9}};
      const LaunchedCosts costs;
      const Simulation folded =
          simulate(plan, costs, cluster,
                   {.samples = samples_of({{.tokens = 100, .patches = 50, .items = 1}})});
      // Two sizes that are one to the costs.
      std::vector<StepShapes> given(1);
      for (const schedule::PipelineModule& module : folded.program.pipeline().modules) {
        const bool is_encoder = module.is_colocated();
        const std::int64_t replicas = is_encoder ? 4 * pp : 4;
        auto& of = given[0].emplace_back(static_cast<std::size_t>(replicas));
        for (std::size_t replica = 0; replica < of.size(); ++replica) {
          of[replica].resize(2);
          for (cost::MicrobatchShape& each : of[replica]) {
            each.backbone = {.tokens = 64.0 * 100 / 8, .sequences = static_cast<int>(replica) + 1};
            each.encoder = {.tokens = 64.0 * 50 / (8 * double(pp))};
          }
        }
      }
      const Simulation whole =
          simulate(plan, costs, cluster, {.samples = {.kind = Kind::kGiven, .given = given}});
      EXPECT_EQ(whole.program.lanes(), 4 * pp + 4 * pp);
      EXPECT_EQ(folded.program.lanes(), pp + 1);
      EXPECT_NEAR(double(whole.times.makespan.count), double(folded.times.makespan.count),
                  0.002 * double(folded.times.makespan.count));
    }
  }
}

TEST(ColocatedPlan, ARankHoldsBothModules) {
  config::Plan plan = colocated_plan(1, 1, 4, 1);
  plan.batch.capacity_tokens = {160};
  const Simulation step =
      simulate(plan, LaunchedCosts(), free_links(),
               {.samples = samples_of({{.tokens = 10, .patches = 50, .items = 1}})});
  const auto fixed = Bytes{5000 + 500 + 10 + 1000 + 100 + 10 + 77 + 5};
  const std::int64_t patches = 64 * 50;
  const std::int64_t tokens = 64 * 10 / 4;
  // Encoding needs most: all patches and what the pass takes.
  EXPECT_EQ(step.memory[0].total(), fixed + Bytes{1100 * patches});
  EXPECT_EQ(step.memory[1].total(), step.memory[0].total());
  EXPECT_EQ(step.memory[1].activations, Bytes{1100 * patches});
  EXPECT_EQ(step.memory[1].parameters, Bytes{1000});
  // While the backbone works the encoder's activations rest, and its features wait for their turn.
  const int first = step.program.pass_at(0, StepProgram::Pass::kForward, 0, 0);
  const int second = step.program.pass_at(0, StepProgram::Pass::kForward, 0, 1);
  const auto held_at = [&](Nanoseconds time) {
    Bytes held;
    for (const MemoryPoint& point : step.memory_points[0])
      if (point.time <= time) held = point.bytes;
    return held - fixed;
  };
  EXPECT_EQ(held_at(step.times.actions[first].start),
            Bytes{100 * patches + 8 * patches + 1100 * tokens});
  // Gradients of the features that were used wait for the encoder in their place.
  EXPECT_EQ(held_at(step.times.actions[second].start),
            Bytes{100 * patches + 8 * patches + 1100 * tokens});
  EXPECT_EQ(step.memory_points[0].back().bytes, fixed);
}

TEST(ColocatedPlan, ARankHoldsAllItsEncoders) {
  config::Plan plan = colocated_plan(1, 1, 4, 1);
  plan.batch.capacity_tokens = {160};
  add_second({}, 1, plan);
  const Simulation step =
      simulate(plan, LaunchedCosts(), free_links(),
               {.samples = samples_of({{.tokens = 10, .patches = 50, .items = 1}})});
  const auto fixed = Bytes{5000 + 500 + 10 + 2 * (1000 + 100 + 10) + 77 + 5};
  const std::int64_t patches = 64 * 50;
  // The second one encodes while the activations of the first and its features rest.
  for (const LaneMemory& memory : step.memory)
    EXPECT_EQ(memory.total(), fixed + Bytes{(1100 + 100 + 8) * patches});
}

TEST(ColocatedPlan, SaysWhatDoesNotFit) {
  config::Cluster cluster = free_links();
  cluster.device.memory = {1'000'000};
  const Simulation step =
      simulate(colocated_plan(1, 2, 4), LaunchedCosts(), cluster,
               {.samples = samples_of({{.tokens = 10, .patches = 50, .items = 1}})});
  ASSERT_TRUE(step.out_of_memory);
  const config::Trace trace = trace_of(step, "p", "c");
  EXPECT_THAT(trace.summary.out_of_memory, testing::HasSubstr("other_module"));
}

TEST(ColocatedPlan, MorePassesHoldLessAtATimeAndTakeTheirLaunches) {
  std::int64_t before = 0;
  Bytes held{std::int64_t{1} << 40};
  for (const std::int64_t passes : {1, 2, 4, 8}) {
    config::Plan plan = colocated_plan(1, 2, 8, passes, config::TrainMode::kFrozen);
    plan.batch.capacity_tokens = {400};
    const Simulation step =
        simulate(plan, LaunchedCosts(), free_links(),
                 {.samples = samples_of({{.tokens = 100, .patches = 500, .items = 1}})});
    EXPECT_LT(before, step.times.makespan.count);
    if (before > 0) {
      EXPECT_NEAR(double(step.times.makespan.count - before),
                  double(passes / 2 * LaunchedCosts::kLaunch), 4);
    }
    EXPECT_LT(step.memory[1].total(), held);
    before = step.times.makespan.count;
    held = step.memory[1].total();
  }
}

TEST(ColocatedPlan, DealsTheWholeBatchOverItsReplicas) {
  const config::Plan plan = colocated_plan(2, 2, 4, 2);
  std::vector<SampleSize> sizes;
  for (int i = 0; i < 40; ++i)
    sizes.push_back({.tokens = 100, .patches = 10 * (i % 7), .items = 1});
  double patches = 0;
  for (const SampleSize& size : sizes) patches += static_cast<double>(size.patches);
  schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  for (const bool takes_turns : {false, true}) {
    pipeline.modules[1].takes_turns = takes_turns;
    const StepShapes shapes =
        deal_samples(pipeline, std::vector<cost::Media>(2, cost::Media::kPatches), sizes,
                     in_turns(sizes.size(), 8));
    double all = 0;
    double max = 0;
    double max_of_a_pass = 0;
    for (const std::vector<cost::MicrobatchShape>& replica : shapes[1]) {
      ASSERT_EQ(replica.size(), 2U);
      const double own = replica[0].encoder.tokens + replica[1].encoder.tokens;
      all += own;
      max = std::max(max, own);
      max_of_a_pass = std::max(max_of_a_pass, replica[0].encoder.tokens);
    }
    EXPECT_EQ(all, patches);
    EXPECT_LE(max, patches / 4 + (takes_turns ? 60 : 10));
    EXPECT_TRUE(!takes_turns || max_of_a_pass <= patches / 8 + 60) << "each pass is level";
  }
}

TEST(ColocatedPlan, TracesEveryLaneAndTheIdleTimeOfRanks) {
  const Simulation step =
      simulate(colocated_plan(1, 2, 4), LaunchedCosts(), free_links(),
               {.samples = samples_of({{.tokens = 100, .patches = 50, .items = 1}})});
  const config::Trace trace = trace_of(step, "p", "c");
  ASSERT_EQ(trace.lanes.size(), 2U);
  for (const config::TraceLane& lane : trace.lanes) {
    EXPECT_EQ(lane.busy + lane.communication + lane.idle, step.times.makespan);
    EXPECT_GT(lane.uses.at("other_module").count, 0);
  }
  // Both lanes together: nothing but the messages, and a reduction, keeps a rank from its work.
  const Nanoseconds used = trace.lanes[0].busy + trace.lanes[0].communication +
                           trace.lanes[1].busy + trace.lanes[1].communication;
  EXPECT_NEAR(trace.summary.idle_share, 1 - double(used.count) / double(step.times.makespan.count),
              1e-4);
  EXPECT_LT(trace.summary.idle_share, 0.01);
}

TEST(Simulate, SamplesOfImagesAndSoundGoToTheirEncoders) {
  config::Plan plan = cost::omni_plan(false);
  plan.batch.global_samples = 8;
  for (config::ModulePlan& module : plan.modules)
    if (module.name == "audio") {  // other replicas than the backbone's: dealt by their frames
      module.mesh = {.dp_shard = 3};
      module.ranks = {8, 9, 10};
    }
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const cost::LayerStageCosts costs(plan, cost::omni_model(), small_cluster(64), pipeline);
  const auto step = [&](std::int64_t patches, std::int64_t frames) {
    const SampleSize size{
        .tokens = 400, .patches = patches, .items = 1, .frames = frames, .clips = 1};
    return simulate(
               plan, costs, small_cluster(64),
               {.samples = {.kind = SampleSource::Kind::kRecorded, .recorded = {.sizes = {size}}}})
        .steps.front();
  };
  EXPECT_GT(step(100, 3'000'000), step(100, 100));
  EXPECT_GT(step(3'000'000, 100), step(100, 100));
}

}  // namespace
}  // namespace tributary::simulate
