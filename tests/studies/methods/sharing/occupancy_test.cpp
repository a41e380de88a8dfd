
#include <gtest/gtest.h>
#include <map>

#include "core/text.h"
#include "studies/methods/sharing/sharing_baselines.h"
#include "tests/plan/sharing/staging_oracle.h"

namespace tributary::studies {
namespace {

/// Two modules on two devices: the kernels of one run all the time, those of the other, which waits
/// for its host, the less of it the more devices it has.
plan::SharingProblem two_modules() {
  return {.modules = {{.name = "steady",
                       .times = {{800}, {400}},
                       .whole = {{800}, {400}},
                       .busy = {1, 1},
                       .whole_busy = {1, 1},
                       .layers = 4},
                      {.name = "waiting",
                       .times = {{200}, {100}},
                       .whole = {{200}, {100}},
                       .busy = {0.5, 0.25},
                       .whole_busy = {0.5, 0.25},
                       .layers = 4}},
          .devices = 2,
          .units = 1};
}

Occupancy found_by(const plan::SharingProblem& problem,
                   SharingAnswer (*solve)(const plan::SharingProblem&)) {
  const std::optional<Occupancy> found = occupancy_of(problem, solve(problem));
  EXPECT_TRUE(found.has_value());
  return found.value_or(Occupancy{});
}

TEST(Occupancy, OfModulesOnAllDevicesIsWhatTheyKeepBusyOverTime) {
  plan::SharingProblem problem = two_modules();
  const Occupancy found = found_by(problem, solve_temporal);
  EXPECT_DOUBLE_EQ(found.mean, (400 * 1 + 100 * 0.25) / 500);
  EXPECT_DOUBLE_EQ(found.min, found.mean);
  for (const std::size_t module : {0, 1}) {
    plan::SharingProblem alone = problem;
    alone.modules = {problem.modules[module]};
    EXPECT_DOUBLE_EQ(found_by(alone, solve_temporal).mean, problem.modules[module].whole_busy[1]);
  }
}

TEST(Occupancy, OfModulesSideBySideWaitsForTheSlowest) {
  const Occupancy found = found_by(two_modules(), solve_distmm);
  EXPECT_DOUBLE_EQ(found.mean, (800 * 1 + 200 * 0.5) / (2 * 800));
  EXPECT_DOUBLE_EQ(found.min, 200 * 0.5 / 800);
}

TEST(Occupancy, OfASplitModuleIsThatOfItsParts) {
  // Beside the steady one, the other ends with its fourth layer; then all devices do what is left.
  const plan::SharingProblem problem = two_modules();
  const SharingAnswer answer = solve_spindle(problem);
  ASSERT_EQ(answer.waves.size(), 2U);
  EXPECT_DOUBLE_EQ(answer.waves[0].modules[0].part, 0.25);
  EXPECT_DOUBLE_EQ(answer.waves[1].modules[0].part, 0.75);
  EXPECT_EQ(answer.certificate.value.count, 200 + 300);
  const Occupancy found = *occupancy_of(problem, answer);
  EXPECT_DOUBLE_EQ(found.mean, (200 * 1 + 200 * 0.5 + 2 * 300) / (2 * 500.0));
  EXPECT_DOUBLE_EQ(found.min, (200 * 0.5 + 300) / 500);
}

TEST(Occupancy, OfAPipelineCountsItsHead) {
  // Sixteen microbatches of 100, the second module one behind the first.
  plan::SharingProblem problem{.modules = {}, .devices = 2, .units = 1};
  for (const char* name : {"vision", "fusion"})
    problem.modules.push_back({.name = name,
                               .times = {{1600}, {1500}},
                               .whole = {{1600}, {1500}},
                               .busy = {0.9, 0.8},
                               .whole_busy = {0.9, 0.8},
                               .layers = 1});
  problem.modules[1].after = {0};
  EXPECT_DOUBLE_EQ(found_by(problem, solve_distmm_pipe).mean, 0.9 * 1600 / 1700);
  EXPECT_DOUBLE_EQ(found_by(problem, solve_distmm).mean, 0.8);
}

/// Two modules that are as fast on half of a device, and there keep more of it busy.
plan::SharingProblem two_on_a_device() {
  plan::SharingProblem problem{.modules = {}, .devices = 1, .units = 2};
  for (const char* name : {"vision", "text"})
    problem.modules.push_back({.name = name,
                               .times = {{100}, {90}},
                               .whole = {{90}},
                               .busy = {0.8, 0.4},
                               .whole_busy = {0.4},
                               .layers = 1,
                               .bandwidth = {0.5, 0.5}});
  return problem;
}

TEST(Occupancy, OfPartsOfADeviceIsTheirShare) {
  plan::SharingProblem problem = two_on_a_device();
  EXPECT_DOUBLE_EQ(found_by(problem, solve_mosaic).mean, 0.5 * 0.8 + 0.5 * 0.8);
  problem.modules[1].times[0] = {50};
  EXPECT_DOUBLE_EQ(found_by(problem, solve_mosaic).mean, 0.5 * 0.8 + 0.5 * 0.8 * 50 / 100);
  EXPECT_DOUBLE_EQ(found_by(problem, solve_temporal).mean, 0.4);
}

TEST(Occupancy, OfModulesThatSlowEachOtherIsTheSamePartOfALongerTime) {
  plan::SharingProblem problem = two_on_a_device();
  problem.interference = {plan::Interference::Form::kPairwise, 0, 0, 1};
  problem.modules[1].times[0] = {50};
  const SharingAnswer answer = solve_mosaic_unaware(problem);
  ASSERT_EQ(answer.waves.size(), 1U);
  EXPECT_EQ(answer.waves[0].time.count, 125);  // 100 * (1 + 0.5 * 0.5)
  EXPECT_EQ(answer.waves[0].modules[1].time.count, 63);
  EXPECT_DOUBLE_EQ(occupancy_of(problem, answer)->mean, 0.5 * 0.8 * (125 + 63) / 125);
}

TEST(Occupancy, LeavesDevicesIdleThatHelpNobody) {
  plan::SharingProblem problem = two_modules();
  problem.modules.pop_back();
  problem.modules[0].times[1] = problem.modules[0].whole[1] = {900};
  problem.modules[0].whole_busy = {0.9, 0.8};
  EXPECT_DOUBLE_EQ(found_by(problem, solve_temporal).mean, 0.9 / 2);
}

TEST(Occupancy, IsNotKnownWithoutWhatModulesKeepBusyOrAPlan) {
  plan::SharingProblem problem = two_modules();
  for (plan::SharedModule& module : problem.modules) module.memory = {{20}, {10}};
  problem.memory = Bytes{5};
  EXPECT_FALSE(occupancy_of(problem, solve_temporal(problem)).has_value());
  problem.memory = Bytes{20};
  EXPECT_TRUE(occupancy_of(problem, solve_temporal(problem)).has_value());
  problem.modules[1].busy.clear();
  problem.modules[1].whole_busy.clear();
  EXPECT_FALSE(occupancy_of(problem, solve_temporal(problem)).has_value());
}

/// A random problem that knows its times on all numbers of devices and what they keep busy.
plan::SharingProblem random_busy_problem(std::uint64_t seed) {
  RandomStream random(seed, "occupancy");
  plan::SharingProblem problem =
      plan::random_sharing_problem(random, random.between(1, 7), random.between(1, 8), 5);
  if (seed % 2 == 0) add_random_edges(random, problem, 0.3);
  if (seed % 3 == 0) problem.interference = {plan::Interference::Form::kPairwise, 0, 0, 1};
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    plan::SharedModule& made = problem.modules[module];
    made.layers = random.between(0, 6);
    std::vector<Nanoseconds> whole;
    for (std::int64_t devices = 1; devices <= problem.devices; ++devices) {
      whole.push_back(time_on_devices(problem, static_cast<std::int64_t>(module), double(devices)));
      made.whole_busy.push_back(0.1 + 0.9 * random.uniform());
    }
    made.whole = std::move(whole);
    for (std::size_t i = 0; i < made.times.size(); ++i)
      made.busy.push_back(0.1 + 0.9 * random.uniform());
  }
  return problem;
}

/// Each module once in all, on devices and units that are there, within its wave.
void expect_whole(const plan::SharingProblem& problem, const SharingAnswer& answer) {
  std::vector<double> done(problem.modules.size());
  for (const BaselineWave& wave : answer.waves) {
    std::map<std::int64_t, std::int64_t> units;
    for (const WaveModule& each : wave.modules) {
      done[each.module] += each.part;
      EXPECT_LE(each.time, wave.time);
      EXPECT_EQ(std::ssize(each.on), each.devices);
      for (const std::int64_t device : each.on) units[device] += each.units;
    }
    for (const auto& [device, taken] : units) {
      EXPECT_LT(device, problem.devices);
      EXPECT_LE(taken, problem.units);
    }
  }
  for (const double parts : done) EXPECT_NEAR(parts, 1, 1e-6);
}

TEST(Occupancy, OfEveryMethodIsThatOfItsModulesAndAtMostAll) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    plan::SharingProblem problem = random_busy_problem(seed);
    for (const SharingBaseline& baseline : sharing_baselines()) {
      SCOPED_TRACE(str(baseline.name, ", seed ", seed));
      const SharingAnswer answer = baseline.solve(problem);
      expect_whole(problem, answer);
      const std::optional<Occupancy> found = occupancy_of(problem, answer);
      ASSERT_TRUE(found.has_value());
      EXPECT_GT(found->mean, 0);
      EXPECT_LE(found->mean, 1 + 1e-12);
      EXPECT_GE(found->min, 0);
      EXPECT_LE(found->min, found->mean + 1e-12);
    }
  }
}

}  // namespace
}  // namespace tributary::studies
