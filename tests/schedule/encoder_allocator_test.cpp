#include "schedule/encoder_allocator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "core/random.h"

namespace tributary::schedule {
namespace {

constexpr double kBackbone = 1;        // s of a step, where nothing is missing
constexpr std::int64_t kObjects = 40;  // of a step
constexpr std::int64_t kTakers = 2;
constexpr int kToCome = 6;    // steps until an encoder that is wanted is there
constexpr int kToLeave = 2;   // steps until one that is withdrawn has left
constexpr double kAhead = 2;  // steps of features that encoders may have ready

/// A run on a clock: encoders fill a store of features at their own pace, the backbone empties it.
/// It knows nothing of the rules by which their number is chosen.
class SimulatedRun {
 public:
  /// `load`: how many encoders would be busy all the time, by step. `noise`: of the work, a share.
  SimulatedRun(const EncoderRange& range, std::function<double(int)> load, double noise)
      : policy(range, range.min), load_(std::move(load)), noise_(noise), encoders_(range.min) {}

  void step() {
    const bool changed = move_encoders();
    const double work =
        load_(now_) * kBackbone * std::exp(noise_ * random_.normal());  // [encoder s]
    const double step_work = std::max(work, 1e-6);
    // What is missing in the store is made while the ranks wait.
    const double before = std::min(kAhead, store_);
    const double rate = static_cast<double>(encoders_) / step_work;  // steps of features a second
    const double backbone = kBackbone * std::exp(0.05 * random_.normal());
    const double missing = std::max(0.0, 1 - before - rate * backbone);
    const double waited = missing / std::max(rate, 1e-6);
    const double seconds = backbone + waited;
    store_ = std::min(kAhead, before + rate * seconds - 1);
    waited_ += waited;
    seconds_ += seconds;
    const auto change = policy.after_step({.seconds = seconds,
                                           .starved = waited * kTakers,
                                           .taken = kObjects,
                                           .made = kObjects,
                                           .busy = step_work,
                                           .encoders = encoders_,
                                           .changed = changed});
    ++now_;
    if (!change) return;
    EXPECT_EQ(change->wanted, policy.wanted());
    changes.push_back(now_);
    arrives_ = now_ + (change->wanted > encoders_ ? kToCome : kToLeave);
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }
  /// Share of the time that ranks waited, since the last call.
  double take_waiting() {
    const double share = waited_ / seconds_;
    waited_ = seconds_ = 0;
    return share;
  }

  EncoderAllocator policy;
  std::vector<int> changes;  // steps

 private:
  bool move_encoders() {
    if (encoders_ == policy.wanted() || now_ < arrives_) return false;
    encoders_ = policy.wanted();
    return true;
  }

  std::function<double(int)> load_;
  double noise_;
  std::int64_t encoders_;
  int now_ = 0, arrives_ = 0;
  double store_ = 0, waited_ = 0, seconds_ = 0;
  RandomStream random_{7};
};

EncoderRange range_of(std::int64_t min, std::int64_t max) {
  return {.min = min, .max = max, .window_seconds = 10, .takers = kTakers};
}

TEST(EncoderAllocator, FollowsAMixtureThatDriftsUpAndDown) {
  SimulatedRun run(
      range_of(1, 4), [](int step) { return step < 100 || step >= 300 ? 0.6 : 2.4; },
      /*noise=*/0.1);
  run.run(100);
  EXPECT_EQ(run.changes.size(), 0);
  run.run(60);
  EXPECT_EQ(run.policy.wanted(), 3);  // 2.4 * 1.1
  (void)run.take_waiting();
  run.run(140);
  EXPECT_LT(run.take_waiting(), 0.02);
  run.run(60);
  EXPECT_EQ(run.policy.wanted(), 1);
  (void)run.take_waiting();
  run.run(140);
  EXPECT_LT(run.take_waiting(), 0.02);
  EXPECT_LE(run.changes.size(), 4);
}

TEST(EncoderAllocator, SettlesAtEveryLoad) {
  for (double load = 0.05; load < 4; load += 0.05) {
    SimulatedRun run(
        range_of(0, 5), [load](int) { return load; }, /*noise=*/0.2);
    run.run(400);
    const std::size_t early = run.changes.size();
    (void)run.take_waiting();
    run.run(2000);
    EXPECT_LE(early, 6) << load;
    EXPECT_LE(run.changes.size(), early + 2) << load;
    EXPECT_LT(run.take_waiting(), 0.025) << load;
    EXPECT_LE(run.policy.wanted(), std::ceil(1.3 * load) + 1) << load;
  }
}

TEST(EncoderAllocator, KeepsWhatAMixtureNeedsThatGoesUpAndDown) {
  SimulatedRun run(
      range_of(1, 4), [](int step) { return step / 60 % 2 == 0 ? 0.5 : 2.5; },
      /*noise=*/0.1);
  run.run(6000);  // a hundred turns
  EXPECT_LE(run.changes.size(), 24);
  const std::size_t before = run.changes.size();
  run.run(600);
  EXPECT_LE(run.changes.size(), before + 2);
}

/// A step of two ranks, which waited for `lacking` of it, with so much work for one encoder.
FlowRates rates(std::int64_t encoders, double load, double lacking = 0) {
  const double seconds = 2;
  return {.seconds = seconds,
          .starved = lacking * seconds * kTakers,
          .taken = 10,
          .made = 10,
          .busy = load * seconds * (1 - lacking),
          .encoders = encoders};
}

/// What it says after some steps, if anything.
std::optional<EncoderChange> after(EncoderAllocator& policy, int steps, const FlowRates& step) {
  for (int i = 0; i < steps; ++i)
    if (auto change = policy.after_step(step)) return change;
  return std::nullopt;
}

TEST(EncoderAllocator, SaysWhatItHasMeasured) {
  EncoderAllocator policy(range_of(1, 4), 1);
  const auto change = after(policy, 11, rates(1, 1.5, 0.25));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wanted, 2);
  EXPECT_EQ(change->reason,
            "ranks lacked features for 25.0 % of the last 16.0 s; their work keeps 1.5 encoders "
            "busy");
}

TEST(EncoderAllocator, TakesTheTimeOfEncodersForTheirWorkWhereRanksWait) {
  EncoderAllocator policy(range_of(1, 4), 1);
  const auto change = after(policy, 11, rates(1, 0.8, 0.6));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wanted, 3);  // 1.1 / 0.4
}

TEST(EncoderAllocator, AddsAnEncoderWhereTheRatesSayThatThereAreEnough) {
  EncoderAllocator policy(range_of(1, 4), 2);
  const auto change = after(policy, 11, rates(2, 0.5, 0.1));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wanted, 3);
  FlowRates joined = rates(3, 0.5);
  joined.changed = true;
  EXPECT_FALSE(policy.after_step(joined));
  EXPECT_FALSE(after(policy, 200, rates(3, 0.5))) << "two were too few at this work";
  EXPECT_TRUE(after(policy, 200, rates(3, 0.3)));
}

TEST(EncoderAllocator, AsksForNoMoreWhileOneIsMissing) {
  EncoderAllocator policy(range_of(1, 4), 2);
  EXPECT_FALSE(after(policy, 40, rates(1, 3, 0.5))) << "it was killed, and another one comes";
  FlowRates joined = rates(2, 3, 0.3);
  joined.changed = true;
  EXPECT_FALSE(policy.after_step(joined));
  EXPECT_TRUE(after(policy, 11, rates(2, 3, 0.3)));
}

TEST(EncoderAllocator, AsksForAnotherWhereTheMissingOneDoesNotCome) {
  EncoderAllocator policy(range_of(1, 4), 2);
  const auto change = after(policy, 500, rates(1, 3, 0.5));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wanted, 4);
}

TEST(EncoderAllocator, LetsAnEncoderGoWhereTheOthersHaveTimeToSpare) {
  EncoderAllocator policy(range_of(1, 4), 2);
  EXPECT_FALSE(after(policy, 3 + 8 * 20, rates(2, 0.8))) << "one would be 25 % faster";
  EXPECT_FALSE(after(policy, 8, rates(2, 0.7))) << "in one window";
  EXPECT_FALSE(after(policy, 8, rates(2, 0.8)));
  EXPECT_FALSE(after(policy, 8, rates(2, 0.7)));
  const auto change = after(policy, 8, rates(2, 0.7));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wanted, 1);
}

TEST(EncoderAllocator, CountsNoStepsInWhichEncodersComeAndGo) {
  EncoderAllocator policy(range_of(1, 4), 2);
  for (int i = 0; i < 50; ++i) {
    FlowRates step = rates(2, 0.9, /*lacking=*/i % 12 < 3 ? 0.9 : 0);
    step.changed = i % 12 == 0;
    EXPECT_FALSE(policy.after_step(step)) << i;
  }
}

TEST(EncoderAllocator, WaitsUntilEncodersHaveToldOfTheirWork) {
  EncoderAllocator policy(range_of(1, 4), 1);
  FlowRates silent = rates(1, 1.5, 0.25);
  silent.made = 0;
  silent.busy = 0;
  EXPECT_FALSE(after(policy, 50, silent));
  EXPECT_TRUE(after(policy, 1, rates(1, 1.5, 0.25)));
}

TEST(EncoderAllocator, StaysInItsRange) {
  EncoderAllocator few(range_of(1, 2), 2);
  EXPECT_FALSE(after(few, 100, rates(2, 3.9, 0.4)));
  EncoderAllocator one(range_of(1, 2), 1);
  EXPECT_FALSE(after(one, 100, rates(1, 0)));
  EncoderAllocator none(range_of(0, 2), 1);
  const auto change = after(none, 100, rates(1, 0));
  ASSERT_TRUE(change) << "a mixture without pictures";
  EXPECT_EQ(change->wanted, 0);
}

TEST(EncoderAllocator, TakesWorkOfRanksForThatOfEncodersWhereThereAreNone) {
  EncoderAllocator policy(range_of(0, 4), 0);
  FlowRates step{.seconds = 2, .encoding = 0.8, .encoded_here = 10};  // 0.4 s of each of two ranks
  const auto change = after(policy, 11, step);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->wanted, 1);  // 0.8 s of encoders for 1.6 s of the backbone
}

}  // namespace
}  // namespace tributary::schedule
