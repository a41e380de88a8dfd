#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "studies/methods/plan_space.h"
#include "tests/studies/methods/even_problem.h"
#include "tests/studies/methods/small_problem.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;

double seconds_of(const PipelineAnswer& answer) {
  EXPECT_EQ(answer.certificate.status, plan::Status::kFeasible);
  return 1e-9 * double(answer.certificate.value.count);
}

// Four layers of a second each in either module, which a device alone cannot hold: a stage takes
// four seconds of a sample, and four microbatches come one after another.
const TrainingProblem kEven = even_problem(2, {4, 1, 10}, {4, 1, 10}, 15);

TEST(MegatronVpp, HasTheBubbleOf1F1BOverItsChunks) {
  EXPECT_NEAR(seconds_of(solve_megatron_uniform(kEven)), (4 + 1) * 4.0, 1e-6);
  const PipelineAnswer found = solve_megatron_vpp(kEven);
  EXPECT_NEAR(seconds_of(found), (4 + 1.0 / 4) * 4.0, 1e-6);
  EXPECT_EQ(found.plan, "tp 1, pp 2, dp 1, 4 microbatches, 4 chunks");
}

TEST(MegatronVpp, Is1F1BWhereTheMicrobatchesDoNotFillTheStages) {
  TrainingProblem problem = kEven;  // three samples: one microbatch, or three
  problem.costs.global_samples = 3;
  problem.batches[0].pop_back();
  EXPECT_NEAR(seconds_of(solve_megatron_vpp(problem)), (3 + 1) * 4.0, 1e-6);
  EXPECT_EQ(solve_megatron_vpp(problem).plan, "tp 1, pp 2, dp 1, 3 microbatches, 1 chunk");
}

TEST(MegatronVpp, PaysForItsChunksInMemory) {
  // Activations of a sample: a byte a layer. Two chunks have 2 (2 - 1) + 2 + 1 = 5 halves in
  // flight.
  TrainingProblem problem = kEven;
  for (ModuleCosts* module : {&problem.costs.encoder, &problem.costs.backbone})
    module->degrees[0].activation_bytes = 1;
  const auto bytes = [](double depth) { return 10 + depth * (2 + 2); };
  problem.costs.memory_bytes = bytes(9.0 / 4) - 0.01;
  EXPECT_THAT(solve_megatron_vpp(problem).plan, HasSubstr("4 microbatches, 1 chunk"));
  problem.costs.memory_bytes = bytes(9.0 / 4) + 0.01;
  EXPECT_THAT(solve_megatron_vpp(problem).plan, HasSubstr("4 microbatches, 4 chunks"));
}

TEST(MegatronVpp, IsNeverWorseThanWithoutChunks) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const TrainingProblem problem = small_problem(seed);
    EXPECT_LE(seconds_of(solve_megatron_vpp(problem)), seconds_of(solve_megatron_uniform(problem)));
  }
}

TEST(PipeWeaver, EqualsInterleavedMegatronOnEqualLayersAndSamples) {
  // Two segments of each module on each stage are the four chunks.
  const PipelineAnswer found = solve_pipeweaver(kEven);
  EXPECT_NEAR(seconds_of(found), seconds_of(solve_megatron_vpp(kEven)), 1e-6);
  EXPECT_EQ(found.plan, "tp 1, pp 2, dp 1, 4 microbatches, 2 encoder and 2 backbone segments");
}

TEST(PipeWeaver, GivesEveryStageItsPartOfAHeavyEncoder) {
  // Two layers of the encoder are as long as ten of the backbone: chains cut by the number of
  // layers have both on the first stage.
  const TrainingProblem problem = even_problem(2, {2, 5, 10}, {10, 1, 10}, 15);
  const double found = seconds_of(solve_pipeweaver(problem));
  EXPECT_LT(found, seconds_of(solve_megatron_uniform(problem)));
  EXPECT_GE(found, 4 * 20.0 / 2);  // the work on two devices
  EXPECT_LE(found, 4 * 10.0 + 5);  // and the head of a segment
}

TEST(PipeWeaver, DoesNotDependOnTheOrderInWhichRoundsCome) {
  // Two large and two small samples for each module: natural order has them as they come.
  TrainingProblem problem = kEven;
  std::vector<SampleWork>& samples = problem.batches[0] = {{3, 1}, {1, 3}, {1, 1}, {3, 3}};
  const double mine = seconds_of(solve_pipeweaver(problem));
  std::sort(samples.begin(), samples.end(), [](const SampleWork& a, const SampleWork& b) {
    return a.tiles + 10 * a.tokens < b.tiles + 10 * b.tokens;
  });
  EXPECT_NEAR(seconds_of(solve_pipeweaver(problem)), mine, 0.02 * mine);
  EXPECT_GE(mine, 16 * 4 / 2.0);  // the work
}

}  // namespace
}  // namespace tributary::studies
