#include <gtest/gtest.h>
#include <map>

#include "schedule/pipeline/check_schedule.h"
#include "schedule/pipeline/time_schedule.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::schedule {
namespace {

std::string text_of(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& each : violations)
    text += str("[", name_of(each.rule), "] ", each.where, ": ", each.found, "\n");
  return text;
}

TEST(CheckSchedule, AcceptsTenThousandRandomPipelines) {
  std::map<config::PipelineOrder, int> seen;
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    RandomStream random(seed, "valid");
    const Pipeline pipeline = draw_pipeline(random, 5, 9);
    const Buffers buffers{.receive = 2, .send = 1 + static_cast<int>(random.below(2))};
    const Schedule passes = schedule_passes(pipeline);
    ASSERT_EQ(text_of(check_schedule(passes, buffers)), "") << "seed " << seed;
    ASSERT_EQ(text_of(check_schedule(lower_schedule(passes, buffers), buffers)), "")
        << "seed " << seed;
    ++seen[pipeline.modules.back().order];
  }
  EXPECT_EQ(seen.size(), all_orders().size());
}

TEST(LowerSchedule, CostsNoTimeWhereHopsAreFree) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, "lowered");
    Pipeline pipeline = draw_pipeline(random);
    pipeline.hop = {};
    const Buffers ample{.receive = 100, .send = 100};
    const Schedule passes = schedule_passes(pipeline);
    const Schedule lowered = lower_schedule(passes, ample);
    const PipelineMap map(passes.pipeline);
    const PipelineMap lowered_map(lowered.pipeline);
    EXPECT_EQ(makespan_of(DependencyGraph(lowered, lowered_map, ample), costs_of(lowered_map)),
              makespan_of(DependencyGraph(passes, map, ample), costs_of(map)))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace tributary::schedule
