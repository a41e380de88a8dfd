#include "plan/simulate/engine/run_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/plan/simulate/plan_case.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kLatency = 1000;
constexpr std::int64_t kOptimizer = 50;

/// A nanosecond for each patch, three for each token; features have no size.
class PlainCosts final : public StageCosts {
 public:
  [[nodiscard]] StageCost cost(int module, int, const MicrobatchShape& shape) const override {
    const auto tokens = static_cast<std::int64_t>(shape.backbone.tokens);
    if (module == 1) return {.forward = {static_cast<std::int64_t>(shape.encoder.tokens)}};
    return {.forward = {tokens}, .input_gradient = {}, .weight_gradient = {2 * tokens}};
  }
  [[nodiscard]] StageState state(int module, int) const override {
    return {.optimizer_step = {module == 1 ? 0 : kOptimizer}};
  }
};

/// The encoder takes so long for whatever it gets, with communication in it.
class EncoderCosts final : public StageCosts {
 public:
  EncoderCosts(std::int64_t computes, std::int64_t communicates)
      : computes_(computes), communicates_(communicates) {}
  [[nodiscard]] StageCost cost(int module, int stage, const MicrobatchShape& shape) const override {
    if (module == 1) return {.forward = {computes_}, .forward_exposed = {communicates_}};
    return PlainCosts().cost(module, stage, shape);
  }
  [[nodiscard]] StageState state(int module, int stage) const override {
    return PlainCosts().state(module, stage);
  }

 private:
  std::int64_t computes_;
  std::int64_t communicates_;
};

/// One rank that encodes and one that trains.
config::Plan plan_of(config::Placement placement) {
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules) {
    module.mesh = {};
    module.stages.clear();
    module.ranks = {module.name == "backbone" ? 0 : 1};
    if (module.name == "vision") module.placement = placement;
  }
  return plan;
}

MicrobatchShape shape_of(std::int64_t patches, std::int64_t tokens) {
  const auto size = [](std::int64_t count) {
    return PassShape{.tokens = static_cast<double>(count)};
  };
  return {.backbone = size(tokens), .encoder = size(patches)};
}

using Step = std::vector<MicrobatchShape>;

/// Steps of 1 to 8 microbatches of any sizes.
std::vector<Step> draw_steps(RandomStream& random) {
  const std::int64_t most_patches = random.between(100, 9000);
  std::vector<Step> steps(1 + random.below(6));
  for (Step& step : steps)
    for (std::uint64_t i = 0; i <= random.below(8); ++i)
      step.push_back(shape_of(random.between(1, most_patches), random.between(1, 2000)));
  return steps;
}

Simulation simulate_steps(const config::Plan& plan, const std::vector<Step>& steps, int pool,
                          int batches_ahead = -1) {
  SimulationOptions options{.steps = std::ssize(steps),
                            .samples = {.kind = SampleSource::Kind::kGiven},
                            .network = {.share_links = false, .pool_microbatches = pool},
                            .batches_ahead = batches_ahead};
  for (const Step& step : steps) options.samples.given.push_back({{step}, {step}});
  return simulate(plan, PlainCosts(), small_cluster(2), options);
}

/// The recursion of planning.md section 10.1 on one endless row of microbatches, with sends that
/// wait for room: durations of the steps, `slower` times as long, after so many like the first.
std::vector<Nanoseconds> recur(const std::vector<Step>& steps, int warm_up, std::size_t pool,
                               std::int64_t slower = 1) {
  std::vector<std::int64_t> taken;
  std::vector<Nanoseconds> durations;
  std::int64_t encoder = 0;
  std::int64_t backbone = 0;
  for (int number = -warm_up; number < std::ssize(steps); ++number) {
    const std::int64_t before = backbone;
    const std::int64_t factor = number < 0 ? 1 : slower;
    for (const MicrobatchShape& each : steps[std::max(0, number)]) {
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
    EXPECT_EQ(simulate_steps(plan_of(config::Placement::kFlow), steps, pool).steps,
              recur(steps, 32, static_cast<std::size_t>(pool)))
        << "seed " << seed;
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

std::int64_t patches_of(const Step& step) {
  std::int64_t sum = 0;
  for (const MicrobatchShape& each : step) sum += static_cast<std::int64_t>(each.encoder.tokens);
  return sum;
}
std::int64_t tokens_of(const Step& step) {
  std::int64_t sum = 0;
  for (const MicrobatchShape& each : step) sum += static_cast<std::int64_t>(each.backbone.tokens);
  return sum;
}

/// The recursion of `dbuf` in planning.md section 10.1, so many batches ahead; with 0 the one of
/// `serial`. 32 steps like the first come before, and two for each batch ahead.
std::vector<Nanoseconds> recur_batches(const std::vector<Step>& steps, std::size_t ahead) {
  std::vector<std::int64_t> begun;
  std::vector<Nanoseconds> durations;
  std::int64_t encoded = 0;
  std::int64_t trained = 0;
  for (int number = -32 - 2 * static_cast<int>(ahead); number < std::ssize(steps); ++number) {
    const Step& step = steps[std::max(0, number)];
    std::int64_t earliest = 0;
    if (ahead == 0) earliest = trained;
    if (ahead > 0 && begun.size() >= ahead) earliest = begun[begun.size() - ahead];
    encoded = std::max(encoded, earliest) + patches_of(step);
    begun.push_back(std::max(encoded + kLatency, trained));
    const std::int64_t before = trained;
    trained = begun.back() + 3 * tokens_of(step) + kOptimizer;
    if (number >= 0) durations.push_back({trained - before});
  }
  return durations;
}

TEST(RunAhead, SerialIsTheSumOfBothBatches) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RandomStream random(seed, "serial");
    const std::vector<Step> steps = draw_steps(random);
    std::vector<Nanoseconds> sums;
    for (const Step& step : steps)
      sums.push_back({patches_of(step) + kLatency + 3 * tokens_of(step) + kOptimizer});
    EXPECT_EQ(simulate_steps(plan_of(config::Placement::kFlow), steps, 1, 0).steps, sums)
        << "seed " << seed;
  }
}

TEST(RunAhead, WholeBatchesFollowTheRecursionOverSteps) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, "batches");
    const std::vector<Step> steps = draw_steps(random);
    const auto ahead = static_cast<int>(random.below(5));
    // What the pool would keep does not count.
    const auto pool = static_cast<int>(random.between(1, 12));
    EXPECT_EQ(simulate_steps(plan_of(config::Placement::kFlow), steps, pool, ahead).steps,
              recur_batches(steps, static_cast<std::size_t>(ahead)))
        << "seed " << seed << ", " << ahead << " ahead";
  }
}

TEST(RunAhead, EqualBatchesTakeTheSlowerOfBothOnceOneIsAhead) {
  for (const std::int64_t patches : {300, 2900, 5000}) {
    const Step step(8, shape_of(patches, 1000));
    for (const int ahead : {1, 2, 5}) {
      const Simulation of =
          simulate_steps(plan_of(config::Placement::kFlow), {step, step}, 16, ahead);
      const std::int64_t train = 8 * 3000 + kOptimizer;
      // One ahead: a batch is encoded when the one before it has been taken.
      const std::int64_t encode = 8 * patches + (ahead == 1 ? kLatency : 0);
      EXPECT_EQ(of.distribution.median.count, std::max(train, encode)) << patches;
    }
  }
}

TEST(RunAhead, WholeBatchesAreAccountedForAndHeld) {
  for (const int ahead : {0, 1, 2}) {
    for (const std::int64_t patches : {300, 5000}) {
      const Step step(8, shape_of(patches, 1000));
      const Simulation of =
          simulate_steps(plan_of(config::Placement::kFlow), {step, step, step}, 3, ahead);
      for (const LaneAccount& account : of.accounts) EXPECT_EQ(account.total(), of.times.makespan);
      EXPECT_EQ(of.accounts[1][TimeUse::kCompute].count, 8 * patches);
      if (ahead == 0) {
        const LaneAccount& waits = of.accounts[0];
        EXPECT_EQ((waits[TimeUse::kWaitFeatures] + waits[TimeUse::kTransfer]).count,
                  8 * patches + kLatency);
      }
      EXPECT_LE(of.bound.value(), of.times.makespan);
      Nanoseconds clock;
      for (const PathPart& part : of.critical_path) {
        EXPECT_EQ(part.start, clock);
        clock = part.end;
      }
      EXPECT_EQ(clock, of.times.makespan);
    }
  }
}

/// Features of so many bytes, encoded in so long, or in a nanosecond for each patch.
class HeavyFeatures final : public StageCosts {
 public:
  explicit HeavyFeatures(std::int64_t encodes = -1) : encodes_(encodes) {}
  [[nodiscard]] StageCost cost(int module, int stage, const MicrobatchShape& shape) const override {
    StageCost cost = PlainCosts().cost(module, stage, shape);
    if (module == 1) cost.boundary = {1000};
    if (module == 1 && encodes_ >= 0) cost.forward = {encodes_};
    return cost;
  }
  [[nodiscard]] StageState state(int module, int stage) const override {
    return PlainCosts().state(module, stage);
  }

 private:
  std::int64_t encodes_;
};

TEST(RunAhead, AWholeBatchOfFeaturesIsHeldUntilItIsUsed) {
  SimulationOptions options{.network = {.share_links = false, .pool_microbatches = 2}};
  const auto held = [&](int ahead) {
    options.batches_ahead = ahead;
    const Simulation of =
        simulate(plan_of(config::Placement::kFlow), HeavyFeatures(), small_cluster(2), options);
    return of.memory[0].features.count / 1000 - of.program.pipeline().microbatches;
  };
  EXPECT_EQ(held(0), 0);
  EXPECT_LT(held(-1), 0);
}

/// The most microbatches of features that are there at one time of a step in the middle of many
/// equal ones, on the clock of recur_batches.
std::int64_t most_held(std::int64_t patches, std::size_t ahead, int microbatches) {
  constexpr int kSteps = 60;
  std::vector<std::int64_t> begun, begins;
  std::vector<std::pair<std::int64_t, int>> changes;  // what goes comes first
  std::int64_t encoded = 0;
  std::int64_t trained = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::int64_t earliest = 0;
    if (ahead == 0) earliest = trained;
    if (ahead > 0 && begun.size() >= ahead) earliest = begun[begun.size() - ahead];
    encoded = std::max(encoded, earliest);
    for (int i = 0; i < microbatches; ++i) changes.emplace_back((encoded += patches) + kLatency, 1);
    begins.push_back(trained);
    begun.push_back(std::max(encoded + kLatency, trained));
    for (int i = 0; i < microbatches; ++i) changes.emplace_back(begun.back() + 3000 * i + 1000, -1);
    trained = begun.back() + 3000 * microbatches + kOptimizer;
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    held += changes[i].second;
    const bool goes_on = i + 1 < changes.size() && changes[i + 1].first <= begins[kSteps / 2];
    if (!goes_on && changes[i].first < begins[kSteps / 2 + 1]) most = std::max(most, held);
  }
  return most;
}

TEST(RunAhead, BatchesAheadAreHeld) {
  for (const int ahead : {0, 1, 2, 3}) {
    for (const std::int64_t patches : {300, 1500, 5000}) {
      const Simulation of =
          simulate(plan_of(config::Placement::kFlow), HeavyFeatures(patches), small_cluster(2),
                   {.steps = 3, .network = {.share_links = false}, .batches_ahead = ahead});
      ASSERT_FALSE(of.unsettled);
      const int microbatches = of.program.pipeline().microbatches;
      const std::int64_t held = of.memory[0].features.count / 1000;
      EXPECT_EQ(held, most_held(patches, static_cast<std::size_t>(ahead), microbatches))
          << patches << " patches, " << ahead << " ahead";
      // A fast encoder fills all batches ahead before the backbone has used its own.
      if (patches == 300) {
        EXPECT_GE(held, ahead * microbatches);
      }
    }
  }
}

TEST(RunAhead, BatchesAheadNeedAModuleThatCanBe) {
  const Step step(1, shape_of(1, 1));
  EXPECT_THAT(
      [&] { (void)simulate_steps(plan_of(config::Placement::kSeparate), {step}, 16, 1); },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "no module of the plan can work on later batches; where: batches_ahead; found: 1; "
          "expected: a plan with a module of placement flow and train frozen behind which nothing "
          "trains")));
}

/// Vision and a second encoder, both in the pool, one rank each.
config::Plan two_encoders(config::TrainMode second) {
  config::Plan plan = plan_of(config::Placement::kFlow);
  config::ModulePlan other = *plan.find("vision");
  other.name = "sound";
  other.train = second;
  other.ranks = {2};
  plan.modules.push_back(other);
  config::EdgePlan edge = plan.edges.front();
  edge.from = "sound";
  plan.edges.push_back(edge);
  return plan;
}

TEST(RunAhead, ATrainedEncoderKeepsItsPoolBesideWholeBatches) {
  for (const int pool : {1, 3}) {
    SimulationOptions options{.network = {.share_links = false, .pool_microbatches = pool},
                              .batches_ahead = 1};
    const Simulation of =
        simulate(two_encoders(config::TrainMode::kFull), PlainCosts(), small_cluster(3), options);
    int limited = 0;
    int whole = 0;
    for (int index = 0; index < std::ssize(of.program.channels()); ++index) {
      const Channel& channel = of.program.channels()[index];
      if (channel.op != schedule::Op::kSendFeatures) continue;
      const int from = of.program.map().at(channel.from).module;
      const bool trains = of.program.pipeline().modules[from].name == "sound";
      (trains ? limited : whole) += 1;
      EXPECT_EQ(of.network.routes[index].capacity,
                trains ? pool : of.program.pipeline().microbatches);
      if (!trains) continue;
      for (int message = channel.first_message + pool;
           message < channel.first_message + channel.messages; ++message)
        EXPECT_GE(of.times.messages[message].given, of.times.messages[message - pool].taken);
    }
    EXPECT_EQ(limited, 1);
    EXPECT_EQ(whole, 1);
  }
}

TEST(RunAhead, AFrozenModuleBehindATrainedOneCannotBeAhead) {
  config::Plan plan = two_encoders(config::TrainMode::kFull);
  plan.edges.back().to = "vision";  // its gradients go back through vision
  ASSERT_TRUE(RunAhead::has_any(plan));
  SimulationOptions options{.network = {.share_links = false}, .batches_ahead = 0};
  EXPECT_THAT(
      [&] { (void)simulate(plan, PlainCosts(), small_cluster(3), options); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("can work on later batches; where: ")));
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

TEST(RunAhead, ManyBatchesAheadSettle) {
  for (const int ahead : {1, 31, 32, 33, 100}) {
    const auto unsettled = [&](std::int64_t patches) {
      return simulate_steps(plan_of(config::Placement::kFlow), {Step(8, shape_of(patches, 1000))},
                            16, ahead)
          .unsettled;
    };
    EXPECT_FALSE(unsettled(5000)) << ahead;  // never more than one ahead
    EXPECT_FALSE(unsettled(300)) << ahead;   // gets far ahead in little more steps than that
  }
  EXPECT_TRUE(
      simulate_steps(plan_of(config::Placement::kFlow), {Step(8, shape_of(2995, 1000))}, 16, 100)
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
    EXPECT_GE(of.distribution.least, pace) << encodes;
    EXPECT_LE(of.distribution.largest, pace + Nanoseconds{kOptimizer}) << encodes;
    EXPECT_EQ(of.unsettled, unsettled) << encodes;
    EXPECT_LE(of.bound.value(), of.times.makespan);
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
  EXPECT_EQ(of.bound.value().count, 8 * 5000);
  // Of other steps than equal ones it may have done its part before.
  const Step light(8, shape_of(1, 1000));
  EXPECT_EQ(simulate_steps(plan_of(config::Placement::kFlow), {light, step, light}, 16)
                .bound.value()
                .count,
            8 * 3000 + kOptimizer);
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
    EXPECT_LE(of.bound.value(), of.times.makespan);
    Nanoseconds clock;
    for (const PathPart& part : of.critical_path) {
      EXPECT_EQ(part.start, clock);
      clock = part.end;
    }
    EXPECT_EQ(clock, of.times.makespan);
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
}  // namespace tributary::plan
