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

TEST(MegatronFirstStage, TakesAsManyLayersBesideTheEncoderAsMakeStagesEven) {
  // The encoder is as long as two of six layers of the backbone; by number it counts as one.
  const TrainingProblem problem = even_problem(2, {1, 2, 1e-3}, {6, 1, 6}, 5);
  const PipelineAnswer found = solve_megatron_first_stage(problem);
  EXPECT_NEAR(seconds_of(found), (4 + 1) * 4.0, 1e-6);
  EXPECT_THAT(found.plan, HasSubstr("4 microbatches, 2 layers beside the encoder"));
  EXPECT_GT(seconds_of(solve_megatron_uniform(problem)), (4 + 1) * 4.0 + 1);
}

TEST(MegatronFirstStage, HoldsTheWholeEncoderThere) {
  // Half of the encoder's six bytes would fit beside half of the backbone's.
  const TrainingProblem problem = even_problem(2, {2, 1, 6}, {2, 1, 6}, 7);
  EXPECT_EQ(solve_megatron_uniform(problem).certificate.status, plan::Status::kFeasible);
  const PipelineAnswer found = solve_megatron_first_stage(problem);
  EXPECT_THAT(found.plan, HasSubstr("0 layers beside the encoder"));
}

TEST(BigMac, IsThePlainStepOnOneDevice) {
  const TrainingProblem problem = even_problem(1, {4, 1, 10}, {4, 1, 10}, 25);
  EXPECT_NEAR(seconds_of(solve_bigmac(problem)), 4 * 8.0, 1e-6);
  EXPECT_NEAR(seconds_of(solve_bigmac(problem)), seconds_of(solve_megatron_uniform(problem)), 1e-6);
}

TEST(BigMac, KeepsTheEncoderOfOneMicrobatch) {
  // With tp 1 on two stages 1F1B keeps two microbatches of everything on the first.
  TrainingProblem problem = even_problem(2, {4, 1, 1}, {4, 1, 10}, 8);
  problem.costs.encoder.degrees[0].activation_bytes = 1;  // a layer's of a sample
  EXPECT_EQ(solve_megatron_uniform(problem).certificate.status, plan::Status::kInfeasible);
  problem.costs.memory_bytes = 1 + 5 + 4 + 0.01;  // copy of the encoder, half of the backbone
  EXPECT_EQ(solve_bigmac(problem).certificate.status, plan::Status::kFeasible);
  problem.costs.memory_bytes = 1 + 5 + 4 - 0.01;
  EXPECT_EQ(solve_bigmac(problem).certificate.status, plan::Status::kInfeasible);
}

TEST(BigMac, GivesEveryStageItsPartOfAHeavyEncoder) {
  // Two samples a microbatch, one for each stage; by layers the first stage has all of the encoder.
  TrainingProblem problem = even_problem(2, {1, 6, 1}, {4, 1, 10}, 7);
  const double found = seconds_of(solve_bigmac(problem));
  EXPECT_LT(found, seconds_of(solve_megatron_uniform(problem)));
  EXPECT_GE(found, 4 * 10.0 / 2);
}

TEST(Colocated, ReducesTheEncoderOverItsCopies) {
  // Two copies of two ranks each, with ten bytes on a rank: ten seconds, beside three of backward.
  TrainingProblem problem = even_problem(4, {4, 1, 10}, {4, 1, 10}, 100);
  for (ModuleCosts* module : {&problem.costs.encoder, &problem.costs.backbone})
    module->degrees[0].tp = 2;
  problem.costs.encoder.gradient_share = 1;
  for (const auto solve : {solve_bigmac, solve_optimus, solve_megascale_omni}) {
    problem.bytes_per_second = 1e12;
    const double fast = seconds_of(solve(problem));
    problem.bytes_per_second = 1;
    EXPECT_NEAR(seconds_of(solve(problem)) - fast, 10 - 3, 1e-6);
  }
}

TEST(MegaScaleOmni, IsBothPhasesOnOneDevice) {
  const TrainingProblem problem = even_problem(1, {4, 1, 10}, {4, 1, 10}, 25);
  EXPECT_NEAR(seconds_of(solve_megascale_omni(problem)), 4 * 8.0, 1e-6);
}

TEST(MegaScaleOmni, GivesEachModuleItsOwnDataParallelism) {
  // The backbone fits on two stages alone, the encoder on every rank: half of the encoder's work on
  // each, and 1F1B of four microbatches.
  const TrainingProblem problem = even_problem(2, {4, 1, 1}, {4, 1, 10}, 8);
  EXPECT_NEAR(seconds_of(solve_megascale_omni(problem)), 4 * 4 / 2.0 + (4 + 1) * 2.0, 1e-6);
}

TEST(MegaScaleOmni, DealsWithinNodesWhereLinksBetweenThemAreSlow) {
  // As they come the first device has three times the work of the second.
  TrainingProblem problem = even_problem(2, {4, 1, 1}, {4, 1, 1}, 8);
  problem.batches = {{{3, 3}, {1, 1}, {3, 3}, {1, 1}}};
  problem.node_bytes_per_second = 1e12;
  problem.bytes_per_second = 1e-3;
  problem.feature_bytes = 1;
  EXPECT_THAT(solve_megascale_omni(problem).plan, HasSubstr("2 groups"));
  EXPECT_NEAR(seconds_of(solve_megascale_omni(problem)), 6 * 8.0, 1e-6);
  problem.bytes_per_second = 1e12;
  EXPECT_THAT(solve_megascale_omni(problem).plan, HasSubstr("1 group"));
  EXPECT_NEAR(seconds_of(solve_megascale_omni(problem)), 4 * 8.0, 1e-6);
}

TEST(MegaScaleOmni, IsNeverWorseThanSamplesAsTheyComeInPhases) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const TrainingProblem problem = small_problem(seed);
    EXPECT_LE(seconds_of(solve_megascale_omni(problem)),
              seconds_of(solve_loongforge_3(problem)) * (1 + 1e-3));
  }
}

}  // namespace
}  // namespace tributary::studies
