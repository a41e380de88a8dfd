#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "core/random.h"
#include "core/text.h"
#include "schedule/step_plan.h"

namespace tributary::schedule {
namespace {

/// As bench/train/placements.py draws them: a quarter without a picture, 8 % with three to six, and
/// patches of a log-normal size.
std::vector<SampleLoad> pictured_samples(std::uint64_t seed) {
  RandomStream random(seed, "pictures");
  std::vector<SampleLoad> loads;
  for (int i = 0; i < 32; ++i) {
    const double kind = random.uniform();
    const std::int64_t pictures = kind < 0.25 ? 0 : kind < 0.92 ? 1 : random.between(3, 6);
    std::int64_t patches = 0;
    for (std::int64_t picture = 0; picture < pictures; ++picture) {
      const double size = 196 * std::exp(0.9 * random.normal());
      patches += std::clamp<std::int64_t>(std::llround(size), 16, 1024);
    }
    const std::int64_t tokens = random.between(16, 64) + patches / 4;
    loads.push_back({.tokens = {tokens}, .chains = {{{patches * 700}}, {{tokens * 2800}}}});
  }
  return loads;
}

std::int64_t tokens_of(const StepProblem& problem, std::span<const std::int32_t> places) {
  std::int64_t tokens = 0;
  for (const std::int32_t place : places) tokens += problem.samples[place].tokens.count;
  return tokens;
}

/// max / mean of the backbone's work over the replicas.
double spread_of(const StepProblem& problem, const StepPlan& plan) {
  std::int64_t max = 0;
  std::int64_t all = 0;
  for (const PackedBins& own : plan.microbatches) {
    max = std::max(max, tokens_of(problem, own.items));
    all += tokens_of(problem, own.items);
  }
  return static_cast<double>(max * problem.replicas) / static_cast<double>(all);
}

std::int64_t fullest_of(const StepProblem& problem, const StepPlan& plan) {
  std::int64_t fullest = 0;
  for (const PackedBins& own : plan.microbatches)
    for (std::int64_t bin = 0; bin < own.bins(); ++bin)
      fullest = std::max(fullest, tokens_of(problem, own.bin(bin)));
  return fullest;
}

/// Microbatches alone would leave the replica of a sample above their mean late.
TEST(LevelReplicas, ThoseThatMeetOnceAStepAreLevelBeforeTheirMicrobatches) {
  for (const std::int64_t replicas : {3, 4}) {
    double level = 0;
    double before = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(str("seed ", seed, ", ", replicas, " replicas"));
      const auto samples = pictured_samples(seed);
      StepProblem problem{.samples = samples,
                          .replicas = replicas,
                          .balance = config::Balance::kLpt2d,
                          .packing = config::Packing::kLevel,
                          .microbatches = 4,
                          .capacity = Tokens{20'000}};
      const StepPlan plan = plan_step(problem);
      for (const PackedBins& own : plan.microbatches) EXPECT_EQ(own.bins(), 4);
      EXPECT_LT(spread_of(problem, plan), 1.05);
      level += spread_of(problem, plan) - 1;
      problem.meeting = Meeting::kMicrobatch;  // these are level by microbatch alone
      before += spread_of(problem, plan_step(problem)) - 1;
      problem.meeting = Meeting::kStep;
      problem.capacity = {fullest_of(problem, plan)};
      EXPECT_EQ(plan_step(problem), plan) << "with the least room";
    }
    EXPECT_LT(level, 0.5 * before) << replicas << " replicas";
  }
}

}  // namespace
}  // namespace tributary::schedule
