#include "plan/cut_layers/split_layers.h"

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "core/error.h"
#include "core/random.h"

namespace tributary::plan {
namespace {

using config::RecomputePlan;
using testing::HasSubstr;
using testing::ThrowsMessage;

UnitCosts unit_of(std::int64_t forward) {
  return {.forward = {forward}, .input_gradient = {forward}, .weight_gradient = {forward}};
}

SplitProblem random_split_problem(RandomStream& random) {
  SplitProblem problem;
  const std::int64_t units = random.between(1, 10);
  const bool has_memory = random.below(2) == 0;
  for (std::int64_t i = 0; i < units; ++i) {
    UnitCosts unit = unit_of(random.between(0, 9));
    unit.recompute_selective = {random.between(0, 3)};
    unit.recompute_full = unit.recompute_selective + Nanoseconds{random.between(0, 6)};
    unit.activation_full = {random.between(0, 3)};
    unit.activation_selective = unit.activation_full + Bytes{random.between(0, 5)};
    unit.activation = unit.activation_selective + Bytes{random.between(0, 5)};
    unit.state = {random.between(0, 10)};
    problem.units.push_back(unit);
  }
  problem.stages = random.between(1, std::min<std::int64_t>(units, 5));
  problem.microbatches = random.between(1, 12);
  problem.boundary = {random.between(0, 2)};
  problem.stages_behind = random.between(0, 2);
  if (has_memory) problem.memory = Bytes{random.between(20, 120)};
  return problem;
}

/// The least time of units on a stage over the levels that fit, straight from the definition.
std::int64_t stage_by_definition(const SplitProblem& problem, std::int64_t stage,
                                 std::int64_t first, std::int64_t end) {
  const std::int64_t live =
      std::min(problem.microbatches, problem.stages - stage + problem.stages_behind);
  for (int level = 0; level < 3; ++level) {
    std::int64_t time = problem.stages > 1 ? problem.boundary.count : 0;
    std::int64_t bytes = 0;
    for (std::int64_t i = first; i < end; ++i) {
      const UnitCosts& unit = problem.units[i];
      const Nanoseconds added[] = {{0}, unit.recompute_selective, unit.recompute_full};
      const Bytes kept[] = {unit.activation, unit.activation_selective, unit.activation_full};
      time += unit.passes().count + added[level].count;
      bytes += unit.state.count + live * kept[level].count;
    }
    if (!problem.memory || bytes <= problem.memory->count) return time;
  }
  return -1;
}

std::int64_t best_by_all_cuts(const SplitProblem& problem) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  const auto units = std::ssize(problem.units);
  std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> cut =
      [&](std::int64_t stage, std::int64_t first, std::int64_t sum, std::int64_t slowest) {
        if (stage == problem.stages) {
          if (first == units) best = std::min(best, sum + (problem.microbatches - 1) * slowest);
          return;
        }
        for (std::int64_t end = first + 1; end <= units; ++end) {
          const std::int64_t time = stage_by_definition(problem, stage, first, end);
          if (time >= 0) cut(stage + 1, end, sum + time, std::max(slowest, time));
        }
      };
  cut(0, 0, 0, 0);
  return best;
}

TEST(SplitLayers, EqualsBruteForceOnRandomChains) {
  int infeasible = 0;
  int recomputed = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "split");
    const SplitProblem problem = random_split_problem(random);
    const std::int64_t expected = best_by_all_cuts(problem);
    const LayerSplit found = split_layers(problem);
    if (expected == std::numeric_limits<std::int64_t>::max()) {
      ++infeasible;
      EXPECT_EQ(found.certificate.status, Status::kInfeasible);
      EXPECT_THAT(found.certificate.limit, HasSubstr("above the limit of"));
      continue;
    }
    EXPECT_EQ(found.certificate.status, Status::kOptimal);
    EXPECT_EQ(found.certificate.value.count, expected);
    EXPECT_EQ(found.first_unit.front(), 0);
    EXPECT_EQ(found.first_unit.back(), std::ssize(problem.units));
    std::int64_t sum = 0;
    std::int64_t slowest = 0;
    for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
      const std::int64_t time =
          stage_by_definition(problem, stage, found.first_unit[stage], found.first_unit[stage + 1]);
      EXPECT_EQ(time, found.stage_time[stage].count);
      sum += time;
      slowest = std::max(slowest, time);
      recomputed += found.recompute[stage] != RecomputePlan::kNone;
    }
    EXPECT_EQ(sum + (problem.microbatches - 1) * slowest, expected);
  }
  EXPECT_GT(infeasible, 30);
  EXPECT_GT(recomputed, 100);
}

TEST(MinMemory, IsTheEdgeOfWhatCanBeCut) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "least memory");
    SplitProblem problem = random_split_problem(random);
    problem.memory = min_memory(problem);
    EXPECT_EQ(split_layers(problem).certificate.status, Status::kOptimal);
    *problem.memory -= Bytes{1};
    EXPECT_EQ(split_layers(problem).certificate.status, Status::kInfeasible);
  }
}

TEST(SplitLayers, AStageLeavesUnitsToTheNextWhereThatOneCannotHaveLaterOnes) {
  SplitProblem problem;
  problem.units.assign(4, unit_of(100));
  problem.units[0].activation = problem.units[1].activation = {1};
  problem.units[2].activation = {10};  // one of it fits, so the last stage has it
  for (UnitCosts& unit : problem.units)
    unit.activation_selective = unit.activation_full = unit.activation;
  problem.stages = 3;
  problem.microbatches = 3;
  problem.memory = Bytes{10};
  EXPECT_THAT(split_layers(problem).first_unit, testing::ElementsAre(0, 1, 2, 4));
}

TEST(SplitLayers, CutsTheLongestChainsAtOnce) {
  SplitProblem problem;
  problem.units.assign(10'000, unit_of(100));
  problem.stages = 64;
  problem.microbatches = 8;
  const auto value_at_most = [&](std::int64_t units) { return 300 * (10'000 + 7 * units); };
  LayerSplit found = split_layers(problem);
  EXPECT_EQ(found.certificate.value.count, value_at_most(157));  // 64 * 156 units are too few
  // Of equal cuts the earliest: the last stages have all they can.
  EXPECT_EQ(found.first_unit[63], 10'000 - 157);
  EXPECT_EQ(found.first_unit[1], 10'000 - 63 * 157);
  problem.units[0] = unit_of(20'000);
  found = split_layers(problem);
  EXPECT_EQ(found.certificate.value.count, 300 * (200 + 9'999 + 7 * 200));
}

struct Model {
  const char* name;
  std::int64_t layers, width, kv_width, ffn, vocab;
  double with_recompute[4], without[4];  // uniform over best - 1, in %, at 2, 4, 8, 16 stages
};

const Model kModels[] = {
    {"Qwen2.5-7B", 28, 3584, 512, 18944, 152064, {5.0, 9.4, 18.8, 37.7}, {6.5, 16.7, 33.5, 42.8}},
    {"Llama-3-8B", 32, 4096, 1024, 14336, 128256, {4.7, 9.0, 16.1, 26.9}, {5.7, 15.7, 28.2, 47.0}},
    {"Qwen2.5-32B", 64, 5120, 1024, 27648, 152064, {0.6, 1.2, 2.2, 4.0}, {1.8, 3.5, 6.6, 11.9}},
    {"Llama-3-70B", 80, 8192, 1024, 28672, 128256, {0, 0, 0, 0}, {0.6, 1.1, 2.1, 3.8}},
    {"Qwen2.5-72B", 80, 8192, 1024, 29568, 152064, {0.2, 0.3, 0.6, 1.1}, {1.0, 2.0, 3.8, 7.0}},
};

double percent_above_best(const Model& model, std::int64_t stages, double head_share) {
  const double layer = double(model.width) * (2.0 * double(model.width + model.kv_width)) +
                       3.0 * double(model.width * model.ffn);
  const double head = double(model.width * model.vocab) * head_share;
  SplitProblem problem;
  problem.units.assign(model.layers, unit_of(1'000'000));
  problem.units.push_back(unit_of(std::llround(1e6 * head / layer)));
  problem.stages = stages;
  problem.microbatches = 1 << 20;  // the slowest stage decides
  const LayerSplit best = split_layers(problem);
  const Nanoseconds slowest = *std::max_element(best.stage_time.begin(), best.stage_time.end());
  std::int64_t uniform = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t layers = model.layers / stages + (stage < model.layers % stages);
    uniform =
        std::max(uniform, 3'000'000 * layers +
                              (stage + 1 == stages ? problem.units.back().passes().count : 0));
  }
  return 100 * (double(uniform) / double(slowest.count) - 1);
}

TEST(SplitLayers, GainsWhatTheReferenceTableSays) {
  for (const Model& model : kModels) {
    for (int step = 0; step < 4; ++step) {
      SCOPED_TRACE(str(model.name, " on ", 2 << step, " stages"));
      EXPECT_NEAR(percent_above_best(model, 2 << step, 0.75), model.with_recompute[step], 0.051);
      EXPECT_NEAR(percent_above_best(model, 2 << step, 1.0), model.without[step], 0.051);
    }
  }
}

TEST(SplitLayers, GivesFrozenLayersMoreRoom) {
  SplitProblem problem;
  problem.units.assign(12, {.forward = {10}});
  problem.units.insert(problem.units.end(), 4, unit_of(10));
  problem.stages = 2;
  problem.microbatches = 64;
  EXPECT_EQ(split_layers(problem).first_unit[1], 12);
}

TEST(PolishSplit, IsNeverSlowerAndStaysAboveItsBound) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "polish");
    const SplitProblem problem = random_split_problem(random);
    const LayerSplit split = split_layers(problem);
    if (split.certificate.status == Status::kInfeasible) continue;
    const LayerSplit polished = polish_split(problem, split);
    const Nanoseconds before = simulate_split(problem, split);
    EXPECT_LE(polished.certificate.value, before);
    EXPECT_EQ(polished.certificate.value, simulate_split(problem, polished));
    EXPECT_LE(polished.certificate.lower_bound, polished.certificate.value);
    better += polished.certificate.value < before;
  }
  EXPECT_GT(better, 10);
}

TEST(PolishSplit, SimulatesTheClosedForm) {
  SplitProblem problem;
  problem.units.assign(8, unit_of(5));
  problem.stages = 4;
  problem.microbatches = 16;
  EXPECT_EQ(simulate_split(problem, split_layers(problem)).count, (16 + 3) * 30);
}

TEST(SplitLayers, SaysWhichStageDoesNotFitAndByHowMuch) {
  SplitProblem problem;
  problem.units.assign(4, {.forward = {1}, .state = {10}});
  problem.stages = 2;
  problem.memory = Bytes{15};
  const LayerSplit found = split_layers(problem);
  EXPECT_EQ(found.certificate.status, Status::kInfeasible);
  EXPECT_THAT(found.certificate.limit,
              HasSubstr("memory: stage 1 with units 1 to 3 needs 30 B with full recompute, 15 B "
                        "above the limit of 15 B"));
}

TEST(SplitLayers, NamesWhatCannotBeUsed) {
  SplitProblem problem;
  problem.units.assign(2, unit_of(1));
  problem.stages = 3;
  EXPECT_THAT([&] { (void)split_layers(problem); },
              ThrowsMessage<Error>(HasSubstr("found: 2 units, 3 stages")));
  problem.stages = 0;
  EXPECT_THAT([&] { (void)split_layers(problem); },
              ThrowsMessage<Error>(HasSubstr("found: 0 stages, 1 microbatches")));
  problem.stages = 2;
  problem.units[1].forward = {-1};
  EXPECT_THAT([&] { (void)split_layers(problem); },
              ThrowsMessage<Error>(HasSubstr("where: unit 1; found: -1")));
  problem.units[1] = unit_of(1);
  problem.units[0].activation_full = {1};
  EXPECT_THAT([&] { (void)split_layers(problem); },
              ThrowsMessage<Error>(HasSubstr("recompute that does not pay; where: unit 0")));
  problem.units[0] = unit_of(1);
  problem.boundary = {-1};
  EXPECT_THAT([&] { (void)split_layers(problem); },
              ThrowsMessage<Error>(HasSubstr("where: boundary; found: -1 ns")));
  problem.boundary = {};
  LayerSplit split = split_layers(problem);
  problem.stages = 1;
  EXPECT_THAT([&] { (void)simulate_split(problem, split); },
              ThrowsMessage<Error>(HasSubstr("found: 2 stages; expected: 1")));
}

}  // namespace
}  // namespace tributary::plan
