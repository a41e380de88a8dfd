#include "studies/methods/recompute_levels.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "tests/studies/methods/small_problem.h"

namespace tributary::studies {
namespace {

TEST(RecomputeLevels, TheCertificateIsThatOfAllLevels) {
  const TrainingProblem problem = small_problem(1);
  TrainingProblem again = problem;  // slower, on tables that leave more above their bound
  again.costs.encoder.sample_flops *= 4;
  again.costs.backbone.sample_flops *= 1.25;
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    if (baseline.name != "megatron_uniform" && baseline.name != "dflop") continue;
    SCOPED_TRACE(baseline.name);
    for (const bool is_turned : {false, true}) {
      std::vector<RecomputedTables> levels = {{.name = ", fast", .problem = problem},
                                              {.name = ", slow", .problem = again}};
      if (is_turned) std::swap(levels[0], levels[1]);
      const auto [answer, tables] = solve_levels(baseline, levels);
      const plan::Certificate fast = baseline.solve(problem).certificate;
      const plan::Certificate slow = baseline.solve(again).certificate;
      EXPECT_EQ(answer.certificate.value, std::min(fast.value, slow.value));
      EXPECT_EQ(answer.certificate.lower_bound, std::min(fast.lower_bound, slow.lower_bound));
      EXPECT_EQ(answer.certificate.evaluations, fast.evaluations + slow.evaluations);
      EXPECT_EQ(tables->name, fast.value <= slow.value ? ", fast" : ", slow");
    }
  }
}

TEST(RecomputeLevels, ASearchThatEndedEarlyIsToldOfAllLevels) {
  const TrainingProblem problem = small_problem(1);
  TrainingProblem cut = problem;
  cut.costs.backbone.sample_flops *= 2;
  cut.budget = 1;
  const PipelineBaseline& baseline = *std::find_if(
      pipeline_baselines().begin(), pipeline_baselines().end(),
      [](const PipelineBaseline& each) { return each.name == "disttrain_batch_serial"; });
  ASSERT_EQ(baseline.solve(cut).certificate.status, plan::Status::kTruncated);
  const std::vector<RecomputedTables> levels = {{.problem = problem}, {.problem = cut}};
  const auto [answer, tables] = solve_levels(baseline, levels);
  EXPECT_EQ(tables, &levels[0]);
  EXPECT_EQ(answer.certificate.status, plan::Status::kTruncated);
}

}  // namespace
}  // namespace tributary::studies
