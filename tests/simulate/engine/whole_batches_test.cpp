#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "simulate/engine/run_ahead.h"
#include "tests/simulate/engine/run_ahead_case.h"

namespace tributary::simulate {
namespace {

std::int64_t patches_of(const Step& step) {
  std::int64_t sum = 0;
  for (const cost::MicrobatchShape& each : step)
    sum += static_cast<std::int64_t>(each.encoder.tokens);
  return sum;
}
std::int64_t tokens_of(const Step& step) {
  std::int64_t sum = 0;
  for (const cost::MicrobatchShape& each : step)
    sum += static_cast<std::int64_t>(each.backbone.tokens);
  return sum;
}

/// The recursion of `dbuf` in docs/theory/planning.md, "Encoders that run ahead", with
/// `ahead` batches encoded before they are trained; 0 gives `serial`. 32 steps like the first come
/// before, and two for each batch ahead.
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

TEST(WholeBatches, SerialIsTheSumOfBothBatches) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RandomStream random(seed, "serial");
    const std::vector<Step> steps = draw_steps(random);
    std::vector<Nanoseconds> sums;
    for (const Step& step : steps)
      sums.push_back({patches_of(step) + kLatency + 3 * tokens_of(step) + kOptimizer});
    const Simulation of = simulate_steps(plan_of(config::Placement::kFlow), steps, 1, 0);
    EXPECT_EQ(of.steps, sums) << "seed " << seed;
    EXPECT_EQ(bound_of(of).value(), of.times.makespan) << "seed " << seed;  // nothing is ahead
  }
}

TEST(WholeBatches, WholeBatchesFollowTheRecursionOverSteps) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, "batches");
    const std::vector<Step> steps = draw_steps(random);
    const auto ahead = static_cast<int>(random.below(5));
    // What the pool would keep does not count.
    const auto pool = static_cast<int>(random.between(1, 12));
    const Simulation of = simulate_steps(plan_of(config::Placement::kFlow), steps, pool, ahead);
    EXPECT_EQ(of.steps, recur_batches(steps, static_cast<std::size_t>(ahead)))
        << "seed " << seed << ", " << ahead << " ahead";
    EXPECT_LE(bound_of(of).value(), of.times.makespan)
        << "seed " << seed << ", " << ahead << " ahead";
  }
}

TEST(WholeBatches, EqualBatchesTakeTheSlowerOfBothOnceOneIsAhead) {
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

TEST(WholeBatches, WholeBatchesAreAccountedForAndHeld) {
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
      EXPECT_LE(bound_of(of).value(), of.times.makespan);
      expect_whole_path(of);
    }
  }
}

/// Features of so many bytes, encoded in so long, or in a nanosecond for each patch.
class HeavyFeatures final : public cost::StageCosts {
 public:
  explicit HeavyFeatures(std::int64_t encodes = -1) : encodes_(encodes) {}
  [[nodiscard]] cost::StageCost cost(int module, int stage,
                                     const cost::MicrobatchShape& shape) const override {
    cost::StageCost cost = PlainCosts().cost(module, stage, shape);
    if (module == 1) cost.boundary = {1000};
    if (module == 1 && encodes_ >= 0) cost.forward = {encodes_};
    return cost;
  }
  [[nodiscard]] cost::StageState state(int module, int stage) const override {
    return PlainCosts().state(module, stage);
  }

 private:
  std::int64_t encodes_;
};

TEST(WholeBatches, AWholeBatchOfFeaturesIsHeldUntilItIsUsed) {
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
std::int64_t max_held(std::int64_t patches, std::size_t ahead, int microbatches) {
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
  std::int64_t max = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    held += changes[i].second;
    const bool goes_on = i + 1 < changes.size() && changes[i + 1].first <= begins[kSteps / 2];
    if (!goes_on && changes[i].first < begins[kSteps / 2 + 1]) max = std::max(max, held);
  }
  return max;
}

TEST(WholeBatches, BatchesAheadAreHeld) {
  for (const int ahead : {0, 1, 2, 3}) {
    for (const std::int64_t patches : {300, 1500, 5000}) {
      const Simulation of =
          simulate(plan_of(config::Placement::kFlow), HeavyFeatures(patches), small_cluster(2),
                   {.steps = 3, .network = {.share_links = false}, .batches_ahead = ahead});
      ASSERT_FALSE(of.unsettled);
      const int microbatches = of.program.pipeline().microbatches;
      const std::int64_t held = of.memory[0].features.count / 1000;
      EXPECT_EQ(held, max_held(patches, static_cast<std::size_t>(ahead), microbatches))
          << patches << " patches, " << ahead << " ahead";
      // A fast encoder fills all batches ahead before the backbone has used its own.
      if (patches == 300) {
        EXPECT_GE(held, ahead * microbatches);
      }
    }
  }
}

TEST(WholeBatches, BatchesAheadNeedAModuleThatCanBe) {
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

TEST(WholeBatches, ATrainedEncoderKeepsItsPoolBesideWholeBatches) {
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

TEST(WholeBatches, AFrozenModuleBehindATrainedOneCannotBeAhead) {
  config::Plan plan = two_encoders(config::TrainMode::kFull);
  plan.edges.back().to = "vision";  // its gradients go back through vision
  ASSERT_TRUE(RunAhead::has_any(plan));
  SimulationOptions options{.network = {.share_links = false}, .batches_ahead = 0};
  EXPECT_THAT(
      [&] { (void)simulate(plan, PlainCosts(), small_cluster(3), options); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("can work on later batches; where: ")));
}

TEST(WholeBatches, ManyBatchesAheadSettle) {
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

}  // namespace
}  // namespace tributary::simulate
