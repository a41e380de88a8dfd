#include "schedule/step_plan.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "core/error.h"
#include "core/random.h"
#include "schedule/pack.h"

namespace tributary::schedule {
namespace {

using config::Balance;
using config::Packing;

/// Text and images of very different sizes: two of three samples see something.
std::vector<SampleLoad> mixed_samples(std::uint64_t seed, std::int64_t samples) {
  RandomStream random(seed, "samples");
  std::vector<SampleLoad> loads;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t text = random.between(20, 400);
    const std::int64_t patches = i % 3 == 0 ? 0 : random.between(64, 1600);
    const std::int64_t tokens = text + patches / 4;
    loads.push_back({.tokens = {tokens},
                     .chains = {{{patches * 700 + patches * patches / 8}},
                                {{tokens * 3000 + tokens * tokens}}}});
  }
  return loads;
}

struct Bucket {
  double vision = 0;
  double backbone = 0;
  std::int64_t tokens = 0;
  [[nodiscard]] double sum() const { return vision + backbone; }
};

Bucket load_of(const StepProblem& problem, std::span<const std::int32_t> places) {
  Bucket bucket;
  for (const std::int32_t place : places) {
    bucket.vision += static_cast<double>(problem.samples[place].chains[0].time.count);
    bucket.backbone += static_cast<double>(problem.samples[place].chains[1].time.count);
    bucket.tokens += problem.samples[place].tokens.count;
  }
  return bucket;
}

double spread(const std::vector<double>& loads) {
  double sum = 0;
  for (const double load : loads) sum += load;
  return std::ranges::max(loads) * static_cast<double>(loads.size()) / sum;
}

/// max / mean over the replicas of the whole step.
double spread_of_step(const StepProblem& problem, const StepPlan& plan,
                      double (*part)(const Bucket&)) {
  std::vector<double> loads;
  for (const PackedBins& replica : plan.microbatches)
    loads.push_back(part(load_of(problem, replica.items)));
  return spread(loads);
}

double sum_of(const Bucket& bucket) { return bucket.sum(); }
double vision_of(const Bucket& bucket) { return bucket.vision; }
double backbone_of(const Bucket& bucket) { return bucket.backbone; }

void expect_alike(const std::vector<Bucket>& buckets) {
  std::vector<double> vision;
  std::vector<double> backbone;
  for (const Bucket& bucket : buckets) {
    vision.push_back(bucket.vision);
    backbone.push_back(bucket.backbone);
  }
  EXPECT_LT(spread(vision), 1.06);
  EXPECT_LT(spread(backbone), 1.06);
}

void expect_sound(const StepProblem& problem, const StepPlan& plan) {
  ASSERT_EQ(plan.replica_of.size(), problem.samples.size());
  ASSERT_EQ(std::ssize(plan.microbatches), problem.replicas);
  std::vector<int> seen(problem.samples.size());
  for (std::int32_t replica = 0; replica < problem.replicas; ++replica) {
    const PackedBins& bins = plan.microbatches[replica];
    for (std::int64_t bin = 0; bin < bins.bins(); ++bin) {
      EXPECT_FALSE(bins.bin(bin).empty());
      EXPECT_LE(load_of(problem, bins.bin(bin)).tokens, problem.capacity.count);
      for (const std::int32_t place : bins.bin(bin)) {
        ++seen[place];
        EXPECT_EQ(plan.replica_of[place], replica);
      }
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
}

TEST(StepPlan, KeepsEverySampleOnceUnderEveryRule) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "plans");
    const auto samples = mixed_samples(seed, random.between(0, 70));
    for (const Balance balance : {Balance::kNone, Balance::kLpt, Balance::kLpt2d})
      for (const Meeting meeting : {Meeting::kStep, Meeting::kMicrobatch})
        for (const Packing packing : {Packing::kNone, Packing::kOnlineBestFit,
                                      Packing::kBestFitDecreasing, Packing::kLevel}) {
          if (packing == Packing::kLevel && balance == Balance::kNone) continue;
          const StepProblem problem{.samples = samples,
                                    .replicas = random.between(1, 9),
                                    .meeting = meeting,
                                    .balance = balance,
                                    .packing = packing,
                                    .microbatches = random.between(1, 12),
                                    .capacity = {random.between(800, 5000)}};
          const StepPlan plan = plan_step(problem);
          expect_sound(problem, plan);
          EXPECT_GE(plan.gap, 0);
        }
  }
}

TEST(StepPlan, DealsInTurnWithoutBalancing) {
  const auto samples = mixed_samples(1, 13);
  const StepPlan plan = plan_step({.samples = samples, .replicas = 4, .capacity = Tokens{2000}});
  for (std::int32_t i = 0; i < 13; ++i) EXPECT_EQ(plan.replica_of[i], i % 4);
  EXPECT_EQ(plan.gap, 0);
  std::vector<Tokens> lengths;  // of replica 1
  for (std::size_t i = 1; i < samples.size(); i += 4) lengths.push_back(samples[i].tokens);
  const PackedBins packed = pack(Packing::kBestFitDecreasing, lengths, Tokens{2000});
  EXPECT_EQ(plan.microbatches[1].first, packed.first);
  for (std::size_t i = 0; i < packed.items.size(); ++i)
    EXPECT_EQ(plan.microbatches[1].items[i], 1 + 4 * packed.items[i]);
}

TEST(StepPlan, OneReplicaTrainsAsWithoutBalancing) {
  const auto samples = mixed_samples(2, 30);
  StepProblem problem{.samples = samples, .replicas = 1, .capacity = Tokens{3000}};
  const StepPlan plain = plan_step(problem);
  for (const Balance balance : {Balance::kLpt, Balance::kLpt2d})
    for (const Meeting meeting : {Meeting::kStep, Meeting::kMicrobatch}) {
      problem.balance = balance;
      problem.meeting = meeting;
      EXPECT_EQ(plan_step(problem), plain);
    }
}

TEST(StepPlan, MakesTheStepLevelForReplicasThatMeetOnceAStep) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto samples = mixed_samples(seed, 64);
    StepProblem problem{.samples = samples, .replicas = 4, .capacity = Tokens{4096}};
    const double in_turn = spread_of_step(problem, plan_step(problem), sum_of);
    problem.balance = Balance::kLpt;
    const StepPlan plan = plan_step(problem);
    EXPECT_LT(spread_of_step(problem, plan, sum_of), 1.002);
    EXPECT_LT(spread_of_step(problem, plan, sum_of), in_turn);
    problem.balance = Balance::kLpt2d;
    const StepPlan both = plan_step(problem);
    EXPECT_LT(spread_of_step(problem, both, sum_of), 1.02);
    EXPECT_LT(spread_of_step(problem, both, vision_of), 1.03);
    EXPECT_LT(spread_of_step(problem, both, backbone_of), 1.03);
  }
}

TEST(StepPlan, MakesEveryRoundLevelForReplicasThatMeetAtEveryMicrobatch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto samples = mixed_samples(seed, 96);
    const StepProblem problem{.samples = samples,
                              .replicas = 4,
                              .meeting = Meeting::kMicrobatch,
                              .balance = Balance::kLpt2d,
                              .capacity = Tokens{4096}};
    const StepPlan plan = plan_step(problem);
    const std::int64_t rounds = plan.microbatches[0].bins();
    EXPECT_GE(rounds, 2);
    for (std::int64_t round = 0; round < rounds; ++round) {
      std::vector<Bucket> buckets;
      for (const PackedBins& replica : plan.microbatches) {
        ASSERT_EQ(replica.bins(), rounds);
        buckets.push_back(load_of(problem, replica.bin(round)));
      }
      expect_alike(buckets);
    }
  }
}

/// Pipelines wait for their slowest stage at every microbatch, however often their replicas meet.
TEST(StepPlan, LevelMicrobatchesAreAsManyAsAskedForAndAlike) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto samples = mixed_samples(seed, 96);
    for (const std::int64_t replicas : {1, 3}) {
      for (const Meeting meeting : {Meeting::kStep, Meeting::kMicrobatch}) {
        const StepProblem problem{.samples = samples,
                                  .replicas = replicas,
                                  .meeting = meeting,
                                  .balance = Balance::kLpt2d,
                                  .packing = Packing::kLevel,
                                  .microbatches = 12 / replicas,
                                  .capacity = Tokens{20'000}};
        const StepPlan plan = plan_step(problem);
        expect_sound(problem, plan);
        std::vector<Bucket> buckets;
        for (const PackedBins& replica : plan.microbatches) {
          ASSERT_EQ(replica.bins(), problem.microbatches);
          for (std::int64_t round = 0; round < replica.bins(); ++round)
            buckets.push_back(load_of(problem, replica.bin(round)));
        }
        expect_alike(buckets);
      }
    }
  }
}

TEST(StepPlan, LevelMicrobatchesAreMoreWhereTheCapacityDoesNotHoldThem) {
  const std::vector<SampleLoad> samples(12, {.tokens = {500}, .chains = {{{10}}, {{10}}}});
  StepProblem problem{.samples = samples,
                      .replicas = 2,
                      .balance = Balance::kLpt,
                      .packing = Packing::kLevel,
                      .microbatches = 2,
                      .capacity = Tokens{1500}};
  const auto rounds = [&] {
    const StepPlan plan = plan_step(problem);
    expect_sound(problem, plan);
    return plan.microbatches[0].bins();
  };
  EXPECT_EQ(rounds(), 2);
  problem.capacity = {1499};
  EXPECT_EQ(rounds(), 3);
  problem.capacity = {500};
  EXPECT_EQ(rounds(), 6);
  for (const std::int64_t more_than_samples : {8, 1 << 20}) {
    problem.microbatches = more_than_samples;
    for (const std::int64_t capacity : {500, 20'000}) {
      problem.capacity = {capacity};
      EXPECT_EQ(rounds(), 6);
    }
  }
}

TEST(StepPlan, EveryLevelMicrobatchHasSamplesWhereThereAreEnough) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    RandomStream random(seed, "filled");
    const std::int64_t buckets = 6 * random.between(1, 8);
    auto samples = mixed_samples(seed, random.between(1, 2 * buckets));
    if (seed % 3 == 1) samples.back().chains[1].time.count *= 1000;  // longer than all others
    if (seed % 3 == 2) samples.back().chains[0].time.count = 1'000'000'000;
    const StepPlan plan = plan_step({.samples = samples,
                                     .replicas = 6,
                                     .balance = seed % 2 == 0 ? Balance::kLpt : Balance::kLpt2d,
                                     .packing = Packing::kLevel,
                                     .microbatches = buckets / 6,
                                     .capacity = Tokens{1'000'000}});
    std::int64_t bins = 0;
    for (const PackedBins& own : plan.microbatches) bins += own.bins();
    EXPECT_EQ(bins, std::min(buckets, std::ssize(samples))) << "seed " << seed;
  }
}

TEST(StepPlan, LevelMicrobatchesRunTheCostliestInTheMiddle) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const std::int64_t count : {20, 21, 30}) {  // of 20 one replica lacks a microbatch
      SCOPED_TRACE(str(seed, ": ", count));
      const auto samples = mixed_samples(seed, count);
      const StepProblem problem{.samples = samples,
                                .replicas = 3,
                                .balance = Balance::kLpt,
                                .packing = Packing::kLevel,
                                .microbatches = 7,
                                .capacity = Tokens{20'000}};
      const StepPlan plan = plan_step(problem);
      expect_sound(problem, plan);
      std::int64_t bins = 0;
      for (const PackedBins& own : plan.microbatches) {
        bins += own.bins();
        const auto cost = [&](std::int64_t nth) {
          return load_of(problem, own.bin(place_of_round(nth, 7))).sum();
        };
        for (std::int64_t nth = 1; nth < own.bins(); ++nth) EXPECT_GE(cost(nth - 1), cost(nth));
      }
      EXPECT_EQ(bins, std::min<std::int64_t>(count, 21));
    }
  }
}

/// Five images of one size over four replicas: one replica must see two, and that is no reason to
/// let the backbone's times drift apart.
TEST(StepPlan, AModuleThatCannotBeLevelLeavesTheOthersLevel) {
  auto samples = mixed_samples(7, 64);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i].chains[0].time = {i < 5 ? 2'000'000 : 0};
  const StepProblem problem{
      .samples = samples, .replicas = 4, .balance = Balance::kLpt2d, .capacity = Tokens{4096}};
  const StepPlan plan = plan_step(problem);
  EXPECT_DOUBLE_EQ(spread_of_step(problem, plan, vision_of), 2 * 4 / 5.0);
  EXPECT_LT(spread_of_step(problem, plan, backbone_of), 1.005);
}

TEST(StepPlan, FewSamplesLeaveReplicasIdle) {
  const auto samples = mixed_samples(3, 2);
  for (const Meeting meeting : {Meeting::kStep, Meeting::kMicrobatch}) {
    const StepPlan plan = plan_step({.samples = samples,
                                     .replicas = 4,
                                     .meeting = meeting,
                                     .balance = Balance::kLpt2d,
                                     .capacity = Tokens{4096}});
    std::int64_t bins = 0;
    for (const PackedBins& replica : plan.microbatches) bins += replica.bins();
    EXPECT_EQ(bins, 2) << "one sample each, on replicas of their own";
    EXPECT_NE(plan.replica_of[0], plan.replica_of[1]);
  }
}

TEST(StepPlan, IsTheSameOnEveryThread) {
  const auto samples = mixed_samples(5, 200);
  const StepProblem problem{.samples = samples,
                            .replicas = 8,
                            .meeting = Meeting::kMicrobatch,
                            .balance = Balance::kLpt2d,
                            .capacity = Tokens{4096}};
  const StepPlan expected = plan_step(problem);
  std::vector<StepPlan> plans(4);
  {
    std::vector<std::jthread> threads;
    for (StepPlan& plan : plans)
      threads.emplace_back([&plan, problem] { plan = plan_step(problem); });
  }
  for (const StepPlan& plan : plans) {
    EXPECT_EQ(plan, expected);
    EXPECT_EQ(fingerprint(plan), fingerprint(expected));
  }
}

TEST(StepPlan, AnotherPlanHasAnotherFingerprint) {
  const auto samples = mixed_samples(6, 20);
  const StepPlan plan = plan_step({.samples = samples, .replicas = 2, .capacity = Tokens{2000}});
  StepPlan other = plan;
  std::swap(other.microbatches[0].items[0], other.microbatches[1].items[0]);
  EXPECT_NE(fingerprint(other), fingerprint(plan));
  other = plan;
  std::swap(other.microbatches[0], other.microbatches[1]);
  EXPECT_NE(fingerprint(other), fingerprint(plan));
  EXPECT_GE(fingerprint(plan), 0);
}

TEST(StepPlan, RefusesASampleThatNoMicrobatchHolds) {
  const std::vector<SampleLoad> samples{{.tokens = {100}, .chains = {{{0}}, {{5}}}},
                                        {.tokens = {300}, .chains = {{{0}}, {{5}}}}};
  for (const Meeting meeting : {Meeting::kStep, Meeting::kMicrobatch})
    EXPECT_THROW((void)plan_step({.samples = samples,
                                  .replicas = 2,
                                  .meeting = meeting,
                                  .balance = Balance::kLpt,
                                  .capacity = Tokens{200}}),
                 Error);
  EXPECT_THROW((void)plan_step({.samples = samples, .replicas = 0, .capacity = Tokens{500}}),
               Error);
}

TEST(StepPlan, RefusesLevelMicrobatchesWithoutTheirNumberOrABalance) {
  const std::vector<SampleLoad> samples(4, {.tokens = {100}, .chains = {{{0}}, {{5}}}});
  StepProblem problem{.samples = samples,
                      .balance = Balance::kLpt,
                      .packing = Packing::kLevel,
                      .microbatches = 2,
                      .capacity = {500}};
  EXPECT_EQ(plan_step(problem).microbatches[0].bins(), 2);
  problem.balance = Balance::kNone;
  EXPECT_THROW((void)plan_step(problem), Error);
  problem.balance = Balance::kLpt;
  problem.microbatches = 0;
  EXPECT_THROW((void)plan_step(problem), Error);
}

}  // namespace
}  // namespace tributary::schedule
