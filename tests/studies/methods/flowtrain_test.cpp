#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "core/text.h"
#include "studies/methods/plan_space.h"
#include "tests/studies/methods/small_problem.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;

double seconds_of(const PipelineAnswer& answer) {
  return 1e-9 * double(answer.certificate.value.count);
}

/// A call of the encoder takes as long as so many tiles more would.
void set_launch(TrainingProblem& problem, double tiles) {
  for (DegreeCosts& degree : problem.costs.encoder.degrees)
    degree.throughput = Throughput::saturating(165e12, tiles);
}

/// A device for each module, equal samples: the slower module sets the pace of every round.
TrainingProblem two_devices() {
  TrainingProblem problem = small_problem(1);
  problem.costs.devices = 2;
  problem.costs.memory_bytes = 1e15;
  problem.batches = {std::vector<SampleWork>(32, {14, 3200})};
  set_mean_shapes(problem);
  return problem;
}

TEST(FlowTrain, RunsTheBackbonesPaceOnceFeaturesKeepUp) {
  // Rounds that do not divide the batch take no longer than the backbone alone on its devices.
  TrainingProblem problem = small_problem(1);
  problem.costs.memory_bytes = 1e15;
  problem.costs.encoder.sample_flops *= 1e-6;  // features cost nothing
  problem.capacity_tokens = 9000;
  const PipelineAnswer flow = solve_flowtrain(problem);
  const PipelineAnswer waiting = solve_flowtrain_without_pool(problem);
  EXPECT_EQ(flow.plan, waiting.plan);
  EXPECT_NEAR(double(flow.certificate.value.count) / double(waiting.certificate.value.count), 1,
              1e-4);
}

TEST(FlowTrain, EncodesWhatAReplicaHasOfARoundInOneCall) {
  for (const double launch : {0.0, 0.6, 10.0, 100.0, 1000.0, 100'000.0}) {
    SCOPED_TRACE(launch);
    TrainingProblem problem = two_devices();
    set_launch(problem, launch);
    const BatchRunner runner(problem);
    double min = std::numeric_limits<double>::infinity();
    for (const std::int64_t rounds : {1, 2, 4, 8, 16, 32}) {
      const double samples = 32.0 / double(rounds);
      min = std::min(min, double(rounds) * std::max(runner.encoder_seconds(1, 14 * samples),
                                                    runner.backbone_seconds(1, 3200 * samples)));
    }
    EXPECT_NEAR(seconds_of(solve_flowtrain(problem)) / min, 1, 1e-6);
  }
}

TEST(FlowTrain, PaysForEqualCallsWhatDistTrainPaysOneBatchAhead) {
  // Both have one call of the encoder a batch, and one of the backbone.
  TrainingProblem problem = two_devices();
  set_launch(problem, 100'000);
  const PipelineAnswer flow = solve_flowtrain(problem);
  EXPECT_THAT(flow.plan, HasSubstr("tp 1, pp 1, dp 1, 1 microbatch"));
  EXPECT_NEAR(seconds_of(flow) / seconds_of(solve_disttrain_batch_double(problem)), 1, 1e-6);
  EXPECT_NEAR(seconds_of(flow) / seconds_of(solve_flowtrain_without_pool(problem)), 1, 1e-6);
}

TEST(FlowTrain, IsNotBehindDistTrainForWantOfLargeCalls) {
  // With memory for a batch in one round, and samples that any number of replicas divides: what is
  // left is the choice by formula.
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const double launch : {0.6, 60.0, 6000.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", launch of " << launch << " tiles");
      TrainingProblem problem = small_problem(seed);
      problem.costs.memory_bytes = 1e15;
      problem.costs.global_samples = 420;
      problem.batches = draw_batches(2, 420, seed);
      set_launch(problem, launch);
      EXPECT_LE(seconds_of(solve_flowtrain(problem)),
                1.1 * seconds_of(solve_disttrain_batch_double(problem)));
    }
  }
}

/// Seconds in which a batch of 32 samples passes the slower side, rates as FlowTrain's allocator
/// takes them.
double pace(const BatchRunner& runner, const Degrees& encoder, const Degrees& backbone,
            double rounds) {
  const Problem3d& costs = runner.problem().costs;
  const double call = std::max(1.0, 32 / (rounds * double(encoder.dp)));
  const double encode = runner.encoder_seconds(encoder.tp, call * costs.encoder.sample_shape) * 32 /
                        (call * double(encoder.dp));
  const double layers = std::ceil(32.0 / double(backbone.pp));  // of 32
  const double samples = 32 / (rounds * double(backbone.dp));
  const double stage =
      runner.backbone_seconds(backbone.tp, samples * costs.backbone.sample_shape) * layers / 32;
  return std::max(encode, (rounds + double(backbone.pp) - 1) * stage +
                              runner.sync_seconds(costs.backbone, backbone, std::int64_t(rounds)));
}

TEST(FlowTrain, ChoosesDegreesAndRoundsOfTheFastestPace) {
  for (const double launch : {0.6, 30.0, 3000.0}) {
    SCOPED_TRACE(launch);
    TrainingProblem problem = small_problem(2);
    set_launch(problem, launch);
    const BatchRunner runner(problem);
    const Problem3d& costs = problem.costs;
    ASSERT_EQ(costs.backbone.layers, 32);
    double min = std::numeric_limits<double>::infinity();
    std::string best;
    for (std::int64_t mine = 1; mine < 8; ++mine) {
      for (std::int64_t other = 1; mine + other <= 8; ++other) {
        for (const Degrees& encoder : list_degrees(costs.encoder, mine, 32)) {
          for (const Degrees& backbone : list_degrees(costs.backbone, other, 32)) {
            if (encoder.pp > 1 || 32 % encoder.dp != 0 || 32 % backbone.dp != 0) continue;
            for (const std::int64_t rounds : rounds_of(problem, backbone.dp)) {
              if (backbone_bytes(problem, backbone, rounds) > costs.memory_bytes) continue;
              const double found = pace(runner, encoder, backbone, double(rounds));
              if (found >= min) continue;
              min = found;
              best = str("encoder ", to_text(encoder), "; backbone ", to_text(backbone), ", ",
                         rounds, " microbatches");
            }
          }
        }
      }
    }
    EXPECT_EQ(solve_flowtrain(problem).plan, best);
  }
}

}  // namespace
}  // namespace tributary::studies
