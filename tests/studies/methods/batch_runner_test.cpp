#include "studies/methods/batch_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/studies/methods/small_problem.h"

namespace tributary::studies {
namespace {

TEST(BatchRunner, DealsEverySampleOnce) {
  const TrainingProblem problem = small_problem(2);
  const BatchRunner runner(problem);
  for (const Deal how : {Deal::kInOrder, Deal::kBalanced, Deal::kByTokens, Deal::kZigZag}) {
    for (const std::int64_t replicas : {1, 2, 3, 4}) {
      for (const std::int64_t rounds : {1, 2, 5, 8}) {
        const Buckets buckets = runner.deal(0, replicas, rounds, how, {1, 1, 1}, {1, 1, replicas});
        std::vector<int> seen(32);
        double tokens = 0;
        for (std::size_t bucket = 0; bucket < buckets.samples.size(); ++bucket) {
          EXPECT_FALSE(buckets.samples[bucket].empty());
          for (const std::int32_t sample : buckets.samples[bucket]) {
            ++seen.at(sample);
            tokens += problem.batches[0][sample].tokens;
          }
          tokens -= buckets.work[bucket].tokens;
        }
        EXPECT_THAT(seen, testing::Each(1));
        EXPECT_NEAR(tokens, 0, 1e-6);
      }
    }
  }
}

TEST(BatchRunner, SharesEncodersOutLongestFirst) {
  const TrainingProblem problem = small_problem(2);
  BatchRunner runner(problem);
  const std::vector<SampleWork> samples = {{4, 1}, {3, 1}, {2, 1}, {1, 1}};
  EXPECT_DOUBLE_EQ(runner.encoder_phase(samples, 1, 2, Deal::kInOrder),
                   runner.encoder_seconds(1, 6));
  EXPECT_DOUBLE_EQ(runner.encoder_phase(samples, 1, 2, Deal::kBalanced),
                   runner.encoder_seconds(1, 5));
}

TEST(BatchRunner, DealsTheLongestThereAndBack) {
  TrainingProblem problem = small_problem(2);
  problem.batches = {{{0, 6}, {0, 5}, {0, 1}, {0, 3}, {0, 4}, {0, 2}}};
  problem.costs.global_samples = 6;
  const BatchRunner runner(problem);
  const Buckets buckets = runner.deal(0, 2, 3, Deal::kZigZag, {1, 1, 1}, {1, 1, 2});
  std::vector<double> tokens;
  for (const SampleWork& work : buckets.work) tokens.push_back(work.tokens);
  // [rounds, replicas]: there, back, and there again.
  EXPECT_THAT(tokens, testing::ElementsAre(6, 5, 3, 4, 2, 1));
}

TEST(BatchRunner, PacksByBestFitAndPadsToTheCapacity) {
  TrainingProblem problem = small_problem(2);
  problem.capacity_tokens = 10;
  // As long as their tokens; the last one is a long sample whose attention takes three more.
  problem.batches = {{{1, 6}, {2, 7}, {3, 3}, {4, 4}, {5, 12, 9}}};
  problem.costs.global_samples = 5;
  const BatchRunner runner(problem);
  const Buckets buckets = runner.deal(0, 2, 9, Deal::kZigZag, {1, 1, 1}, {1, 1, 2});
  // {6, 4}, {7, 3}, {9}: three packs for two replicas, the longest first.
  EXPECT_EQ(buckets.rounds, 2);
  EXPECT_THAT(buckets.samples[buckets.at(0, 0)], testing::ElementsAre(4));
  EXPECT_DOUBLE_EQ(buckets.work[buckets.at(0, 0)].tokens, 13);  // a token of padding
  EXPECT_THAT(buckets.samples[buckets.at(1, 0)], testing::ElementsAre(0, 3));
  EXPECT_THAT(buckets.samples[buckets.at(1, 1)], testing::ElementsAre(1, 2));
  for (const std::size_t full : {buckets.at(1, 0), buckets.at(1, 1)})
    EXPECT_DOUBLE_EQ(buckets.work[full].tokens, 10);
  EXPECT_DOUBLE_EQ(buckets.work[buckets.at(1, 1)].tiles, 5);
  EXPECT_THAT(buckets.samples[buckets.at(0, 1)], testing::IsEmpty());
  EXPECT_EQ(buckets.work[buckets.at(0, 1)].tokens, 0);
}

TEST(BatchRunner, CountsBubblesOfPipelinesApartFromTheirEnds) {
  const TrainingProblem problem = small_problem(2);
  BatchRunner runner(problem);
  const Buckets buckets = {.replicas = 2, .rounds = 2, .samples = {}, .work = {}};
  // Two stages of 1 s forward and 2 s backward a round, on 4 and 1 devices; replica 1 is idle.
  const auto cost = [](int, std::int64_t replica, std::int64_t) {
    return replica == 0 ? PassSeconds{1, 2} : PassSeconds{};
  };
  const auto devices = [](int stage) { return std::int64_t{stage == 0 ? 4 : 1}; };
  EXPECT_DOUBLE_EQ(runner.run_pipelines(2, buckets, devices, cost), 9);
  EXPECT_DOUBLE_EQ(runner.counted().busy, 5 * 6);
  EXPECT_DOUBLE_EQ(runner.counted().bubbles.value(), 5 * (9 - 6));
  // Two more devices for each replica wait for its end, that of replica 1 at once.
  (void)runner.take_counted();
  (void)runner.run_pipelines(2, buckets, devices, cost, 1e9, 2);
  EXPECT_DOUBLE_EQ(runner.counted().bubbles.value(), 5 * (9 - 6) + 2 * 9);
  // Where the stages' devices are not told, nothing is.
  (void)runner.take_counted();
  (void)runner.run_pipelines(
      2, buckets, [](int) { return std::int64_t{0}; }, cost);
  EXPECT_FALSE(runner.counted().bubbles.has_value());
}

TEST(BatchRunner, PacksInOrderAndPadsToTheCapacity) {
  TrainingProblem problem = small_problem(2);
  problem.capacity_tokens = 10;
  problem.batches = {{{1, 6}, {2, 4}, {3, 5}, {4, 6}, {5, 1}}};
  problem.costs.global_samples = 5;
  const BatchRunner runner(problem);
  const Buckets buckets = runner.deal(0, 2, 1, Deal::kInOrder, {1, 1, 1}, {1, 1, 2});
  // {6, 4}, {5}, {6, 1}: to replicas 0, 1, 0; the second round of replica 1 is empty.
  EXPECT_EQ(buckets.rounds, 2);
  EXPECT_THAT(buckets.samples[buckets.at(0, 0)], testing::ElementsAre(0, 1));
  EXPECT_THAT(buckets.samples[buckets.at(1, 0)], testing::ElementsAre(2));
  EXPECT_THAT(buckets.samples[buckets.at(0, 1)], testing::ElementsAre(3, 4));
  EXPECT_THAT(buckets.samples[buckets.at(1, 1)], testing::IsEmpty());
  for (const std::size_t bucket : {0, 1, 2}) EXPECT_EQ(buckets.work[bucket].tokens, 10);
  EXPECT_EQ(buckets.work[buckets.at(1, 1)].tokens, 0);
  EXPECT_EQ(buckets.work[buckets.at(0, 1)].tiles, 9);
}

TEST(BatchRunner, HidesReductionsBesideTheLastBackward) {
  TrainingProblem problem = small_problem(2);
  const ModuleCosts& module = problem.costs.backbone;
  const Degrees degrees = {1, 2, 4};
  const BatchRunner runner(problem);
  const double whole = runner.whole_sync_seconds(module, degrees);
  // Two bytes of 18 a parameter on half of the layers, 2 (n - 1) / n times.
  EXPECT_NEAR(whole, 2 * 3.0 / 4 * module.degrees[0].state_bytes / 9 / 2 / 25e9, 1e-9 * whole);
  const double backward = 0.75 * runner.backbone_seconds(1, module.sample_shape * 4) / 2;
  EXPECT_NEAR(runner.sync_seconds(module, degrees, 2), std::max(0.0, whole - backward), 1e-9);
  problem.bytes_per_second = 1e6;
  const BatchRunner slow(problem);
  EXPECT_NEAR(slow.sync_seconds(module, degrees, 2),
              slow.whole_sync_seconds(module, degrees) - backward, 1e-6);
  EXPECT_EQ(runner.whole_sync_seconds(module, {1, 2, 1}), 0);
}

TEST(BatchRunner, SendsToOtherNodesOverTheLinksOfAllMembersInANode) {
  TrainingProblem problem = small_problem(2);
  problem.bytes_per_second = 10e9;
  problem.devices_per_node = 8;
  problem.node_bytes_per_second = 60e9;
  const BatchRunner runner(problem);
  EXPECT_EQ(runner.ring_rate(8, 4), 10e9);   // one member a node
  EXPECT_EQ(runner.ring_rate(4, 4), 20e9);   // two
  EXPECT_EQ(runner.ring_rate(1, 16), 60e9);  // eight, more than they pass on inside
  EXPECT_EQ(runner.ring_rate(2, 4), 60e9);   // all in one node
  EXPECT_EQ(runner.ring_rate(16, 2), 10e9);
  problem.node_bytes_per_second = 0;
  EXPECT_EQ(BatchRunner(problem).ring_rate(4, 2), 20e9);
}

}  // namespace
}  // namespace tributary::studies
