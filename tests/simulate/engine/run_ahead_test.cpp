#include "simulate/engine/run_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/simulate/engine/run_ahead_case.h"

namespace tributary::simulate {
namespace {

/// The encoder takes so long for whatever it gets, with communication in it.
class EncoderCosts final : public cost::StageCosts {
 public:
  EncoderCosts(std::int64_t computes, std::int64_t communicates)
      : computes_(computes), communicates_(communicates) {}
  [[nodiscard]] cost::StageCost cost(int module, int stage,
                                     const cost::MicrobatchShape& shape) const override {
    if (module == 1) return {.forward = {computes_}, .forward_exposed = {communicates_}};
    return PlainCosts().cost(module, stage, shape);
  }
  [[nodiscard]] cost::StageState state(int module, int stage) const override {
    return PlainCosts().state(module, stage);
  }

 private:
  std::int64_t computes_;
  std::int64_t communicates_;
};

/// The recursion `flow` of docs/theory/planning.md, "Encoders that run ahead", on one
/// endless row of microbatches: durations of the steps, `slower` times as long, after `warm_up`
/// steps like the first.
std::vector<Nanoseconds> recur(const std::vector<Step>& steps, int warm_up, std::size_t pool,
                               std::int64_t slower = 1) {
  std::vector<std::int64_t> taken;
  std::vector<Nanoseconds> durations;
  std::int64_t encoder = 0;
  std::int64_t backbone = 0;
  for (int number = -warm_up; number < std::ssize(steps); ++number) {
    const std::int64_t before = backbone;
    const std::int64_t factor = number < 0 ? 1 : slower;
    for (const cost::MicrobatchShape& each : steps[std::max(0, number)]) {
      encoder += factor * static_cast<std::int64_t>(each.encoder.tokens);
      if (taken.size() >= pool) encoder = std::max(encoder, taken[taken.size() - pool]);
      backbone = std::max(backbone, encoder + kLatency);
      taken.push_back(backbone);
      backbone += factor * 3 * static_cast<std::int64_t>(each.backbone.tokens);
    }
    backbone += kOptimizer;
    if (number >= 0) durations.push_back({backbone - before});
  }
  return durations;
}

TEST(RunAhead, FollowsTheRecursionOverSteps) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, "ahead");
    const int pool = static_cast<int>(random.between(1, 12));
    const std::vector<Step> steps = draw_steps(random);
    const Simulation of = simulate_steps(plan_of(config::Placement::kFlow), steps, pool);
    EXPECT_EQ(of.steps, recur(steps, 32, static_cast<std::size_t>(pool))) << "seed " << seed;
    EXPECT_LE(bound_of(of).value(), of.times.makespan) << "seed " << seed;
  }
}

TEST(RunAhead, ShowsTheMedianOfManySteps) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RandomStream random(seed, "many");
    std::vector<Step> steps(150 + random.below(150));
    for (Step& step : steps)
      step.assign(1 + random.below(4), shape_of(random.between(1, 6000), random.between(1, 2000)));
    const Simulation of = simulate_steps(plan_of(config::Placement::kFlow), steps, 6);
    EXPECT_EQ(of.steps, recur(steps, 32, 6));
    EXPECT_EQ(of.steps[of.shown], of.distribution.median);
    EXPECT_EQ(of.times.makespan, of.distribution.median) << "seed " << seed;
  }
}

TEST(RunAhead, WarmsUpWithoutDisturbances) {
  const std::vector<Step> steps(3, Step(4, shape_of(3200, 1000)));
  SimulationOptions options{.steps = 3,
                            .samples = {.kind = SampleSource::Kind::kGiven},
                            .disturbance = {.straggler_share = 1, .straggler_factor = 3},
                            .network = {.share_links = false, .pool_microbatches = 6}};
  for (const Step& step : steps) options.samples.given.push_back({{step}, {step}});
  EXPECT_EQ(
      simulate(plan_of(config::Placement::kFlow), PlainCosts(), small_cluster(2), options).steps,
      recur(steps, 32, 6, 3));
}

TEST(RunAhead, SaysWhenItHasNotSettled) {
  const auto unsettled = [](std::int64_t patches, int pool) {
    return simulate_steps(plan_of(config::Placement::kFlow), {Step(8, shape_of(patches, 1000))},
                          pool)
        .unsettled;
  };
  // 8 * 5 + 50 ns are won in each step, and the pool has room for 64 * 3000.
  EXPECT_TRUE(unsettled(2995, 64));
  EXPECT_FALSE(unsettled(300, 64));
  EXPECT_FALSE(unsettled(2995, 1));
  EXPECT_FALSE(simulate_steps(plan_of(config::Placement::kSeparate), {Step(1, shape_of(1, 1))}, 64)
                   .unsettled);
}

TEST(RunAhead, EqualStepsGoOnUntilTheySettle) {
  const config::Plan plan = plan_of(config::Placement::kFlow);
  SimulationOptions options{.steps = 400, .network = {.share_links = false}};
  for (const auto& [encodes, unsettled] :
       std::vector<std::pair<std::int64_t, bool>>{{2000, false}, {2900, true}, {3200, false}}) {
    const EncoderCosts costs(encodes, 0);
    const Simulation of = simulate(plan, costs, small_cluster(2), options);
    const std::int64_t microbatches = of.program.pipeline().microbatches;
    const Nanoseconds pace{microbatches * std::max<std::int64_t>(encodes, 3000)};
    EXPECT_GE(of.distribution.min, pace) << encodes;
    EXPECT_LE(of.distribution.max, pace + Nanoseconds{kOptimizer}) << encodes;
    EXPECT_EQ(of.unsettled, unsettled) << encodes;
    EXPECT_LE(bound_of(of).value(), of.times.makespan);
    EXPECT_EQ(of.times.makespan, of.steps[of.shown]);
  }
}

TEST(RunAhead, AFastEncoderHidesBehindTheBackbone) {
  const Step step(8, shape_of(2900, 1000));
  const auto duration = [&](config::Placement placement, int pool) {
    return simulate_steps(plan_of(placement), {step, step, step}, pool).distribution.median.count;
  };
  EXPECT_EQ(duration(config::Placement::kFlow, 16), 8 * 3000 + kOptimizer);
  // Without running ahead the first microbatch is waited for in every step.
  EXPECT_EQ(duration(config::Placement::kSeparate, 16), 2900 + kLatency + 8 * 3000 + kOptimizer);
}

TEST(RunAhead, ALargerPoolBridgesLongerEncodes) {
  Step step(8, shape_of(500, 1000));
  step[2] = step[3] = step[4] = shape_of(6500, 1000);  // 22,000 of the backbone's 24,050 in all
  const auto duration = [&](int pool) {
    return simulate_steps(plan_of(config::Placement::kFlow), {step}, pool).steps.front().count;
  };
  for (int pool = 1; pool < 12; ++pool) EXPECT_GE(duration(pool), duration(pool + 1));
  EXPECT_GT(duration(1), duration(12));
  EXPECT_EQ(duration(12), 8 * 3000 + kOptimizer);
}

TEST(RunAhead, ASlowEncoderSetsThePace) {
  const Step step(8, shape_of(5000, 1000));
  const Simulation of = simulate_steps(plan_of(config::Placement::kFlow), {step}, 16);
  EXPECT_EQ(of.distribution.median.count, 8 * 5000);
  EXPECT_EQ(bound_of(of).value().count, 8 * 5000);
  // Of other steps than equal ones it may have done its part before.
  const Step light(8, shape_of(1, 1000));
  const Simulation unequal =
      simulate_steps(plan_of(config::Placement::kFlow), {light, step, light}, 16);
  EXPECT_EQ(bound_of(unequal).value().count, 8 * 3000 + kOptimizer);
}

/// Features and activations of so many bytes a patch.
class WideCosts final : public cost::StageCosts {
 public:
  explicit WideCosts(std::int64_t bytes) : bytes_(bytes) {}
  [[nodiscard]] cost::StageCost cost(int module, int stage,
                                     const cost::MicrobatchShape& shape) const override {
    cost::StageCost cost = PlainCosts().cost(module, stage, shape);
    if (module == 1) cost.boundary = {bytes_ * cost.forward.count};
    return cost;
  }
  [[nodiscard]] cost::StageState state(int module, int stage) const override {
    cost::StageState state = PlainCosts().state(module, stage);
    state.reduction = {module == 1 ? 0 : 700};
    return state;
  }

 private:
  std::int64_t bytes_;
};

TEST(RunAhead, BoundsAreBelowTheStepsOfEncodersInStages) {
  config::Plan plan = plan_of(config::Placement::kFlow);
  ASSERT_EQ(plan.modules[1].name, "vision");
  plan.modules[1].mesh = {.pp = 2};
  plan.modules[1].ranks = {1, 2};
  plan.modules[1].stages = {{.first = 0, .layers = 1}, {.first = 1, .layers = 1}};
  int met = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, "stages");
    const std::vector<Step> steps = draw_steps(random);
    SimulationOptions options{
        .steps = std::ssize(steps),
        .samples = {.kind = SampleSource::Kind::kGiven},
        .network = {.share_links = random.below(3) > 0,
                    .pool_microbatches = static_cast<int>(random.between(1, 12))},
        .batches_ahead = static_cast<int>(random.between(-1, 2))};
    for (const Step& step : steps) options.samples.given.push_back({{step}, {step}});
    const Simulation of =
        simulate(plan, WideCosts(random.between(0, 400)), small_cluster(3), options);
    EXPECT_LE(bound_of(of).value(), of.times.makespan) << "seed " << seed;
    if (bound_of(of).value() == of.times.makespan) ++met;
  }
  EXPECT_GT(met, 10);
}

TEST(RunAhead, ATrainedEncoderStaysInItsStep) {
  config::Plan plan = plan_of(config::Placement::kFlow);
  plan.modules[1].train = config::TrainMode::kFull;
  ASSERT_EQ(plan.modules[1].name, "vision");
  const Step step(8, shape_of(2900, 1000));
  EXPECT_FALSE(RunAhead::has_any(plan));
  EXPECT_GE(simulate_steps(plan, {step, step}, 16).distribution.median.count,
            2900 + kLatency + 8 * 3000 + kOptimizer);
}

TEST(RunAhead, AccountsForEveryNanosecondOfTheStep) {
  for (const std::int64_t patches : {300, 2900, 5000}) {
    const Step step(8, shape_of(patches, 1000));
    const Simulation of = simulate_steps(plan_of(config::Placement::kFlow), {step, step, step}, 5);
    for (const LaneAccount& account : of.accounts) EXPECT_EQ(account.total(), of.times.makespan);
    EXPECT_EQ(of.times.makespan, of.distribution.median);
    EXPECT_EQ(of.accounts[1][TimeUse::kCompute].count, 8 * patches);
    EXPECT_EQ(of.accounts[0][TimeUse::kCompute].count, 8 * 3000);
    EXPECT_LE(bound_of(of).value(), of.times.makespan);
    expect_whole_path(of);
  }
}

TEST(RunAhead, CommunicationOfWorkDoneBeforeIsNotCompute) {
  for (const std::int64_t computes : {300, 2500, 5000}) {
    const Simulation of =
        simulate(plan_of(config::Placement::kFlow), EncoderCosts(computes, 400), small_cluster(2),
                 {.network = {.share_links = false, .pool_microbatches = 5}});
    const std::int64_t microbatches = of.program.pipeline().microbatches;
    EXPECT_EQ(of.accounts[1][TimeUse::kCompute].count, microbatches * computes);
    EXPECT_EQ(of.accounts[1][TimeUse::kCollective].count, microbatches * 400);
    EXPECT_EQ(of.accounts[1].total(), of.times.makespan);
  }
}

}  // namespace
}  // namespace tributary::simulate
