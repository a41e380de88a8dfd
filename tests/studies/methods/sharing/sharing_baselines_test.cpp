#include "studies/methods/sharing/sharing_baselines.h"

#include <bit>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/plan/sharing/staging_oracle.h"

namespace tributary::studies {
namespace {

std::int64_t value_of(const plan::SharingProblem& problem, std::string_view name) {
  for (const SharingBaseline& baseline : sharing_baselines()) {
    if (baseline.name == name) return baseline.solve(problem).certificate.value.count;
  }
  return -1;
}

TEST(SharingBaselines, AddUpAndKeepTheirBounds) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "sharing baselines");
    plan::SharingProblem problem =
        plan::random_sharing_problem(random, random.between(1, 7), random.between(1, 8), 5);
    if (seed % 2 == 0) add_random_edges(random, problem, 0.3);
    for (const SharingBaseline& baseline : sharing_baselines()) {
      SCOPED_TRACE(baseline.name);
      const SharingAnswer found = baseline.solve(problem);
      EXPECT_LE(found.certificate.lower_bound, found.certificate.value);
      EXPECT_NE(found.certificate.status, plan::Status::kInfeasible);
      Nanoseconds sum = {};
      for (const BaselineWave& wave : found.waves) {
        sum += wave.time;
        const bool shares_devices = baseline.name.starts_with("mosaic") || baseline.name == "exact";
        if (shares_devices) continue;
        std::int64_t devices = 0;
        for (const WaveModule& each : wave.modules) devices += each.devices;
        EXPECT_LE(devices, problem.devices);
      }
      EXPECT_EQ(sum, found.certificate.value);
    }
    for (const SharingBaseline& baseline : sharing_baselines()) {
      if (baseline.name == "megatron_temporal") continue;  // the widths of its test below
      EXPECT_LE(value_of(problem, "exact"), value_of(problem, baseline.name)) << baseline.name;
    }
    EXPECT_LE(value_of(problem, "spindle"), value_of(problem, "distmm"));
    EXPECT_LE(value_of(problem, "distmm_pipe"), value_of(problem, "distmm"));
  }
}

TEST(SharingBaselines, AreNeverBetterThanExactOnDevicesOfItsWidths) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "temporal");
    const plan::SharingProblem problem =
        plan::random_sharing_problem(random, random.between(1, 7), 4, 8);
    EXPECT_LE(value_of(problem, "exact"), value_of(problem, "megatron_temporal"));
  }
}

/// Two modules that are hardly slower on half of a device, but fill its memory.
plan::SharingProblem two_of_memory() {
  plan::SharingProblem problem{.modules = {}, .devices = 1, .units = 2};
  for (const char* name : {"vision", "text"})
    problem.modules.push_back(
        {.name = name, .times = {{100}, {90}}, .layers = 1, .bandwidth = {0.9, 0.9}});
  problem.interference = {plan::Interference::Form::kPairwise, 0, 0, 1};
  return problem;
}

TEST(Spindle, IsBoundedWhereMoreDevicesHelpByLeaps) {
  // On one or two devices no faster than on one: a third of the time each on all three.
  plan::SharingProblem problem{.modules = {}, .devices = 3, .units = 1};
  for (const char* name : {"vision", "audio"})
    problem.modules.push_back(
        {.name = name, .times = {{1200}, {1200}}, .whole = {{1200}, {1200}, {400}}, .layers = 4});
  for (const SharingBaseline& baseline : sharing_baselines()) {
    if (baseline.name != "spindle") continue;
    const plan::Certificate found = baseline.solve(problem).certificate;
    EXPECT_EQ(value_of(problem, "megatron_temporal"), 800);
    EXPECT_GE(found.lower_bound.count, 799);
    EXPECT_LE(found.lower_bound.count, 800);
  }
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "leaps");
    problem = {.modules = {}, .devices = random.between(2, 8), .units = 1};
    for (std::int64_t module = random.between(1, 4); module > 0; --module) {
      plan::SharedModule& made = problem.modules.emplace_back();
      made.name = str("m", module);
      made.layers = random.between(1, 6);
      std::int64_t time = random.between(10'000, 100'000);
      for (std::int64_t devices = 1; devices <= problem.devices; ++devices) {
        if (random.below(3) == 0) time = time * 2 / 5;
        made.whole.push_back({time});
        if (std::has_single_bit(static_cast<std::uint64_t>(devices)))
          made.times.push_back({{time}});
      }
    }
    std::int64_t bound = 0;
    for (const SharingBaseline& baseline : sharing_baselines())
      if (baseline.name == "spindle") bound = baseline.solve(problem).certificate.lower_bound.count;
    EXPECT_GT(bound, 0);
    for (const char* method : {"spindle", "distmm", "megatron_temporal"})
      EXPECT_LE(bound, value_of(problem, method)) << method;
  }
}

TEST(MosaicUnaware, PaysForWhatItDoesNotKnow) {
  const plan::SharingProblem problem = two_of_memory();
  // Side by side 100 alone, half as long again and more together; one after the other 90 and 90.
  EXPECT_EQ(value_of(problem, "mosaic_unaware"), 181);
  EXPECT_EQ(value_of(problem, "mosaic"), 180);
}

TEST(MosaicUnaware, PaysOnlyForThePairsThatAModuleIsPartOf) {
  // The slowest takes nothing of the memory, so that the two others cost each other, but not it.
  plan::SharingProblem problem = two_of_memory();
  problem.units = 3;
  for (plan::SharedModule& module : problem.modules) {
    module.times.assign(3, module.times.front());
    module.bandwidth.assign(3, 0.5);
  }
  problem.modules.push_back(
      {.name = "still", .times = {{120}, {120}, {120}}, .layers = 1, .bandwidth = {0, 0, 0}});
  EXPECT_EQ(value_of(problem, "mosaic_unaware"), 125);  // 100 * (1 + 0.5 * 0.5)
  problem.modules[2].times.assign(3, {130});
  EXPECT_EQ(value_of(problem, "mosaic_unaware"), 130);
  EXPECT_EQ(value_of(problem, "mosaic"), 130);
}

TEST(MosaicUnaware, IsMosaicWhereNothingSlowsAModule) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream random(seed, "unaware");
    const plan::SharingProblem problem =
        plan::random_sharing_problem(random, random.between(1, 7), 4, 8);
    EXPECT_EQ(value_of(problem, "mosaic_unaware"), value_of(problem, "mosaic")) << seed;
  }
}

TEST(ExactSharing, IsProvenOverAllThreeOfItsSpaces) {
  int proven = 0;
  int open = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "exact sharing");
    plan::SharingProblem problem =
        plan::random_sharing_problem(random, random.between(1, 5), random.between(1, 6), 5);
    if (seed % 2 == 0) add_random_edges(random, problem, 0.3);
    const plan::Certificate staged = plan::group_stages(problem).certificate;
    const plan::Certificate whole = solve_distmm(problem).certificate;
    const plan::Certificate waves = solve_spindle(problem).certificate;
    std::int64_t value = std::min(whole.value.count, waves.value.count);
    std::int64_t bound = std::min(whole.lower_bound.count, waves.lower_bound.count);
    if (staged.status != plan::Status::kInfeasible) {
      value = std::min(value, staged.value.count);
      bound = std::min(bound, staged.lower_bound.count);
    }
    const plan::Certificate found = sharing_baselines().back().solve(problem).certificate;
    const plan::Certificate piped = solve_distmm_pipe(problem).certificate;
    if (piped.value.count < value) {  // found, not proven
      EXPECT_EQ(found.value, piped.value);
      EXPECT_EQ(found.lower_bound.count, std::min(bound, piped.lower_bound.count));
      continue;
    }
    EXPECT_EQ(found.value.count, value);
    EXPECT_EQ(found.lower_bound.count, bound);
    EXPECT_EQ(found.status == plan::Status::kOptimal, value == bound);
    ++(value == bound ? proven : open);
  }
  EXPECT_GT(proven, 0);
  EXPECT_GT(open, 0);
}

TEST(Spindle, ChangesDevicesWithinAModule) {
  // Two equal modules of six layers on three devices, of which a third helps none: a device and a
  // half for each, which is two of them for half of the time. A wave to the end of the first module
  // leaves half of the other on two devices: 600 + 300.
  plan::SharingProblem problem{.modules = {}, .devices = 3, .units = 1};
  for (const char* name : {"vision", "text"})
    problem.modules.push_back(
        {.name = name, .times = {{1200}, {600}}, .whole = {{1200}, {600}, {600}}, .layers = 6});
  EXPECT_EQ(value_of(problem, "spindle"), 800);
  const SharingAnswer found = solve_spindle(problem);
  EXPECT_EQ(found.certificate.lower_bound.count, 800);
  ASSERT_EQ(found.waves.size(), 2U);
  EXPECT_EQ(found.waves[0].time.count, 400);
}

/// A chain of two modules that two devices make hardly faster than one.
plan::SharingProblem chain_of_two() {
  plan::SharingProblem problem{.modules = {}, .devices = 2, .units = 1};
  problem.modules.push_back({.name = "vision", .times = {{1600}, {1500}}, .layers = 1});
  problem.modules.push_back(
      {.name = "fusion", .after = {0}, .times = {{1600}, {1500}}, .layers = 1});
  return problem;
}

TEST(DistMMPipe, LeadsMicrobatchesThroughLevelsSideBySide) {
  plan::SharingProblem problem = chain_of_two();
  EXPECT_EQ(value_of(problem, "distmm"), 3000);
  // Sixteen microbatches of 100, the second module one behind the first.
  EXPECT_EQ(value_of(problem, "distmm_pipe"), 1700);
  EXPECT_EQ(value_of(problem, "exact"), 1700);
  const SharingAnswer found = solve_distmm_pipe(problem);
  ASSERT_EQ(found.waves.size(), 1U);
  ASSERT_EQ(found.waves[0].modules.size(), 2U);
  EXPECT_EQ(found.waves[0].modules[0].devices, 1);
  EXPECT_EQ(found.waves[0].modules[1].devices, 1);
  // Where twice the devices are twice as fast, a barrier costs nothing and a pipeline its head.
  for (plan::SharedModule& module : problem.modules) module.times = {{1600}, {800}};
  EXPECT_EQ(value_of(problem, "distmm_pipe"), 1600);
  EXPECT_EQ(solve_distmm_pipe(problem).waves.size(), 2U);
}

TEST(DistMMPipe, IsDistMMWhereNothingDepends) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    RandomStream random(seed, "distmm pipe");
    const plan::SharingProblem problem =
        plan::random_sharing_problem(random, random.between(1, 7), random.between(1, 8), 4);
    EXPECT_EQ(value_of(problem, "distmm_pipe"), value_of(problem, "distmm")) << seed;
  }
}

TEST(DistMMPipe, IsNoBetterThanAllDivisionsOfTheDevicesAllow) {
  // A chain of three on all ways to divide up to eight devices, by the closed form of a flow shop
  // of equal jobs.
  int equal = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "distmm pipe chain");
    plan::SharingProblem problem = plan::random_sharing_problem(random, 3, random.between(3, 8), 4);
    for (std::int32_t module = 1; module < 3; ++module)
      problem.modules[module].after = {module - 1};
    const auto time = [&](std::int64_t module, std::int64_t devices) {
      return time_on_devices(problem, module, double(devices)).count;
    };
    std::int64_t piped = std::int64_t{1} << 60;
    for (std::int64_t a = 1; a < problem.devices; ++a) {
      for (std::int64_t b = 1; a + b < problem.devices; ++b) {
        const std::int64_t times[] = {time(0, a), time(1, b), time(2, problem.devices - a - b)};
        const std::int64_t head = times[0] + times[1] + times[2];
        const std::int64_t max = *std::max_element(std::begin(times), std::end(times));
        piped = std::min(piped, (head + 15 * max + 15) / 16);
      }
    }
    const SharingAnswer found = solve_distmm_pipe(problem);
    if (found.waves.size() == 1) {
      EXPECT_GE(found.certificate.value.count, piped);
    }
    EXPECT_LE(found.certificate.value.count, piped + piped / 50);
    equal += found.certificate.value.count <= piped ? 1 : 0;
  }
  EXPECT_GE(equal, 36);
}

TEST(DistMM, EqualsBruteForceOverWholeDevices) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "distmm");
    const plan::SharingProblem problem =
        plan::random_sharing_problem(random, random.between(1, 4), random.between(4, 8), 4);
    std::int64_t best = std::int64_t{1} << 60;
    const std::function<void(std::size_t, std::int64_t, std::int64_t)> split =
        [&](std::size_t module, std::int64_t left, std::int64_t slowest) {
          if (module == problem.modules.size()) {
            best = std::min(best, slowest);
            return;
          }
          for (std::int64_t devices = 1; devices <= left; ++devices) {
            split(module + 1, left - devices,
                  std::max(slowest, time_on_devices(problem, static_cast<std::int64_t>(module),
                                                    double(devices))
                                        .count));
          }
        };
    split(0, problem.devices, 0);
    EXPECT_EQ(solve_distmm(problem).certificate.value.count, best);
  }
}

TEST(TimeOnDevices, IsStraightInTheLogarithmOfDevices) {
  plan::SharingProblem problem = {
      .modules = {{.name = "m", .times = {{80}, {40}, {50}}}}, .devices = 4, .units = 1};
  EXPECT_EQ(time_on_devices(problem, 0, 1).count, 80);
  EXPECT_EQ(time_on_devices(problem, 0, 2).count, 40);
  EXPECT_EQ(time_on_devices(problem, 0, std::sqrt(2.0)).count, 60);
  EXPECT_EQ(time_on_devices(problem, 0, 4).count, 40);  // two of them do as well
  EXPECT_EQ(time_on_devices(problem, 0, 0.5).count, 160);
}

TEST(TimeOnDevices, IsThatOfAsManyWholeDevicesWhereItIsKnown) {
  const plan::SharingProblem problem = {
      .modules = {{.name = "m", .times = {{80}, {40}, {50}}, .whole = {{80}, {40}, {44}, {20}}}},
      .devices = 4,
      .units = 1};
  EXPECT_EQ(time_on_devices(problem, 0, 1).count, 80);
  EXPECT_EQ(time_on_devices(problem, 0, 1.5).count, 60);
  EXPECT_EQ(time_on_devices(problem, 0, 3).count, 40);  // two of them do better
  EXPECT_EQ(time_on_devices(problem, 0, 4).count, 20);
  EXPECT_EQ(time_on_devices(problem, 0, 0.5).count, 160);
}

TEST(Spindle, CutsModulesBetweenTheirLayers) {
  // Two devices, times that halve with them: cut anywhere, both modules end together at 100 + 20 /
  // 2 and nothing waits. Of two layers of 60 one goes into the first wave, beside 100, or both do.
  plan::SharingProblem problem = {.modules = {{.name = "long", .times = {{120}, {60}}},
                                              {.name = "short", .times = {{100}, {50}}}},
                                  .devices = 2,
                                  .units = 1};
  EXPECT_EQ(solve_spindle(problem).certificate.value.count, 110);
  for (plan::SharedModule& module : problem.modules) module.layers = 2;
  EXPECT_EQ(solve_spindle(problem).certificate.value.count, 120);
  for (plan::SharedModule& module : problem.modules) module.layers = 12;
  EXPECT_EQ(solve_spindle(problem).certificate.value.count, 110);
}

TEST(SharingBaselines, SayWhatDoesNotFit) {
  RandomStream random(1, "memory");
  plan::SharingProblem problem = plan::random_sharing_problem(random, 3, 2, 4);
  problem.memory = Bytes{10};
  for (plan::SharedModule& module : problem.modules) module.memory = {{5}, {5}};
  problem.modules[2].memory = {{30}, {25}};
  for (const SharingBaseline& baseline : sharing_baselines()) {
    SCOPED_TRACE(baseline.name);
    const plan::Certificate found = baseline.solve(problem).certificate;
    EXPECT_EQ(found.status, plan::Status::kInfeasible);
    EXPECT_THAT(found.limit, testing::HasSubstr("memory: m2 needs"));
  }
}

TEST(SharingBaselines, GiveAModuleTheDevicesThatItFits) {
  RandomStream random(3, "devices that fit");
  plan::SharingProblem problem = plan::random_sharing_problem(random, 4, 4, 4);
  problem.memory = Bytes{10};
  for (plan::SharedModule& module : problem.modules) module.memory = {{5}, {4}, {3}};
  problem.modules[1].memory = {{30}, {10}, {9}};
  for (const SharingBaseline& baseline : sharing_baselines()) {
    SCOPED_TRACE(baseline.name);
    const SharingAnswer found = baseline.solve(problem);
    ASSERT_NE(found.certificate.status, plan::Status::kInfeasible);
    bool is_there = false;
    for (const BaselineWave& wave : found.waves) {
      for (const WaveModule& each : wave.modules) {
        if (each.module != 1) continue;
        is_there = true;
        EXPECT_GE(each.devices, 2);
      }
    }
    EXPECT_TRUE(is_there);
  }
  // Two such modules beside each other take all four devices, so that a third waits.
  problem.modules[2].memory = problem.modules[1].memory;
  for (const BaselineWave& wave : solve_distmm(problem).waves) {
    std::int64_t devices = 0;
    for (const WaveModule& each : wave.modules) devices += each.devices;
    EXPECT_LE(devices, 4);
  }
}

TEST(SharingBaselines, CountWhatStaysOnADeviceOverAllStages) {
  RandomStream random(4, "what stays");
  plan::SharingProblem problem = plan::random_sharing_problem(random, 3, 1, 4);
  problem.memory = Bytes{10};
  for (plan::SharedModule& module : problem.modules) {
    module.memory = {{4}};
    module.resident = {{3}};
  }
  // One after the other 3 + 3 + 3 stay and one more is in use.
  EXPECT_NE(solve_temporal(problem).certificate.status, plan::Status::kInfeasible);
  problem.memory = Bytes{9};
  for (const SharingBaseline& baseline : sharing_baselines()) {
    const SharingAnswer found = baseline.solve(problem);
    EXPECT_EQ(found.certificate.status, plan::Status::kInfeasible) << baseline.name;
    EXPECT_TRUE(found.waves.empty()) << baseline.name;
    EXPECT_THAT(found.certificate.limit, testing::HasSubstr("above the limit of 9 B"));
  }
}

}  // namespace
}  // namespace tributary::studies
