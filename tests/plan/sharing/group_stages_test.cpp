#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/plan/sharing/staging_oracle.h"

namespace tributary::plan {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

SharingProblem reference_problem() {
  SharingProblem problem = {.modules = {}, .devices = 2, .units = 4};
  const struct {
    const char* name;
    std::int64_t work, enough;
  } modules[] = {{"V", 60, 4}, {"A", 24, 2}, {"T", 10, 1}};
  for (const auto& module : modules) {
    SharedModule shared = {.name = module.name};
    for (std::int64_t devices = 1; devices <= 2; ++devices) {
      for (std::int64_t unit = 1; unit <= 4; ++unit) {
        shared.times.push_back(
            {4 * module.work / (devices * std::min(unit, module.enough)) + 3 * (devices - 1)});
      }
    }
    shared.bandwidth.assign(4, 0.0);
    problem.modules.push_back(shared);
  }
  return problem;
}

TEST(GroupStages, FindsTheReferenceStaging) {
  const SharingProblem problem = reference_problem();
  const Staging greedy = merge_stages(problem);
  EXPECT_EQ(greedy.certificate.value.count, 60);
  ASSERT_EQ(greedy.stages.size(), 2);
  EXPECT_EQ(greedy.stages[0].time.count, 33);
  EXPECT_EQ(greedy.stages[1].time.count, 27);
  const Staging exact = group_stages(problem);
  EXPECT_EQ(exact.certificate.value.count, 60);
  EXPECT_EQ(exact.certificate.status, Status::kOptimal);
  ASSERT_EQ(exact.stages.size(), 1);
  EXPECT_EQ(fault_of(problem, greedy), "");
  EXPECT_EQ(fault_of(problem, exact), "");
}

TEST(GroupStages, EqualsBruteForceOnIndependentModules) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "staging");
    const SharingProblem problem =
        random_sharing_problem(random, random.between(1, 5), random.between(1, 4), 4);
    const Staging found = group_stages(problem);
    EXPECT_EQ(found.certificate.value.count, StagingOracle(problem, true).staging());
    EXPECT_EQ(found.certificate.status, Status::kOptimal);
    EXPECT_EQ(fault_of(problem, found), "");
    EXPECT_GE(merge_stages(problem).certificate.value, found.certificate.value);
  }
}

TEST(GroupStages, EqualsBruteForceOnFineUnits) {
  for (const std::int64_t units : {17, 20, 100}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(str(units, " units, seed ", seed));
      RandomStream random(seed, "fine");
      const SharingProblem problem =
          random_sharing_problem(random, units == 100 ? 2 : 3, random.between(1, 2), units);
      const Staging found = group_stages(problem);
      EXPECT_EQ(found.certificate.value.count, StagingOracle(problem, true).staging());
      EXPECT_EQ(found.certificate.status, Status::kOptimal);
      EXPECT_EQ(fault_of(problem, found), "");
    }
  }
}

TEST(GroupStages, EqualsBruteForceOnEightModules) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "eight");
    const SharingProblem problem = random_sharing_problem(random, 8, 2, 3);
    const Staging found = group_stages(problem);
    EXPECT_EQ(found.certificate.value.count, StagingOracle(problem, true).staging());
    EXPECT_EQ(fault_of(problem, found), "");
  }
}

TEST(GroupStages, EqualsBruteForceOnGraphs) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "graphs");
    SharingProblem problem =
        random_sharing_problem(random, random.between(2, 6), random.between(1, 4), 3);
    add_random_edges(random, problem, 0.25);
    const Staging found = group_stages(problem);
    EXPECT_EQ(found.certificate.value.count, StagingOracle(problem, true).staging());
    EXPECT_EQ(fault_of(problem, found), "");
    EXPECT_EQ(fault_of(problem, merge_stages(problem)), "");
  }
}

TEST(GroupStages, EqualsBruteForceWhereModulesSlowEachOther) {
  int slowed_plans = 0;
  for (const auto form : {Interference::Form::kPairwise, Interference::Form::kPublished}) {
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      SCOPED_TRACE(seed);
      RandomStream random(seed, "interference");
      SharingProblem problem =
          random_sharing_problem(random, random.between(2, 4), random.between(1, 4), 3);
      const std::int64_t plain = group_stages(problem).certificate.value.count;
      const double scale = form == Interference::Form::kPairwise ? 1 : 1e7;
      problem.interference = {form, 0.02 * scale, 0.3 * scale * random.uniform(),
                              0.5 * scale * random.uniform()};
      if (seed % 3 == 0) add_random_edges(random, problem, 0.3);
      const Staging found = group_stages(problem);
      EXPECT_EQ(found.certificate.value.count, StagingOracle(problem, true).staging());
      EXPECT_EQ(found.certificate.status, Status::kOptimal);
      EXPECT_EQ(fault_of(problem, found), "");
      slowed_plans += found.certificate.value.count > plain;
    }
  }
  EXPECT_GT(slowed_plans, 15);
}

TEST(GroupStages, EqualsBruteForceWhereMemoryIsScarce) {
  int costlier = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "memory");
    SharingProblem problem = random_sharing_problem(random, 4, random.between(1, 4), 3);
    const std::int64_t plain = group_stages(problem).certificate.value.count;
    problem.memory = Bytes{10};
    for (SharedModule& module : problem.modules) {
      for (std::int64_t width = 0; width < problem.widths(); ++width) {
        module.memory.push_back({random.between(2, 9)});
      }
    }
    const Staging found = group_stages(problem);
    EXPECT_EQ(found.certificate.value.count, StagingOracle(problem, true).staging());
    EXPECT_EQ(fault_of(problem, found), "");
    costlier += found.certificate.value.count > plain;
  }
  EXPECT_GT(costlier, 3);
}

TEST(GroupStages, LosesLittleByAlignment) {
  int equal = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "aligned");
    const SharingProblem problem = random_sharing_problem(random, 3, 4, 4);
    const std::int64_t free = StagingOracle(problem, false).staging();
    const std::int64_t aligned = group_stages(problem).certificate.value.count;
    EXPECT_GE(aligned, free);
    equal += aligned == free;
  }
  EXPECT_GE(equal, 19);
}

TEST(GroupStages, KeepsItsPromisesOnEightDevices) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "promises");
    SharingProblem problem = random_sharing_problem(random, 9, 8, 10);
    if (seed % 2 == 1) add_random_edges(random, problem, 0.15);
    const Staging greedy = merge_stages(problem);
    const Staging found = group_stages(problem);
    EXPECT_EQ(fault_of(problem, greedy), "");
    EXPECT_EQ(fault_of(problem, found), "");
    EXPECT_LE(found.certificate.value, greedy.certificate.value);
    EXPECT_LE(greedy.certificate.lower_bound, found.certificate.value);
    EXPECT_EQ(found.certificate.gap(), 0);
    const Staging cut = group_stages(problem, {.evaluations = 1});
    EXPECT_EQ(cut.certificate.status, Status::kTruncated);
    EXPECT_LE(cut.certificate.lower_bound, found.certificate.value);
    EXPECT_LE(found.certificate.value, cut.certificate.value);
    EXPECT_EQ(fault_of(problem, cut), "");
  }
}

TEST(GroupStages, SaysWhichModuleDoesNotFit) {
  SharingProblem problem = reference_problem();
  problem.memory = Bytes{100};
  for (SharedModule& module : problem.modules) module.memory = {{100}, {60}};
  problem.modules[1].memory = {{150}, {120}};
  for (const Staging& found : {group_stages(problem), merge_stages(problem)}) {
    EXPECT_EQ(found.certificate.status, Status::kInfeasible);
    EXPECT_EQ(
        found.certificate.limit,
        "memory: A needs 120 B of a device on its widest block, 20 B above the limit of 100 B");
  }
}

TEST(GroupStages, NamesWhatCannotBeUsed) {
  const auto refuses = [](auto change, const char* words) {
    SharingProblem problem = reference_problem();
    change(problem);
    EXPECT_THAT([&] { (void)group_stages(problem); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses([](SharingProblem& p) { p.devices = 0; }, "where: devices; found: 0; expected: 1 to 64");
  refuses([](SharingProblem& p) { p.units = 101; }, "where: units; found: 101; expected: 1 to 100");
  refuses(
      [](SharingProblem& p) {
        p.devices = 32;
        p.units = 17;
      },
      "where: units; found: 17; expected: 1 to 16");
  refuses([](SharingProblem& p) { p.modules.clear(); }, "where: modules; found: 0");
  refuses([](SharingProblem& p) { p.modules[1].times.pop_back(); },
          "where: A; found: 7 times; expected: 2 widths of 4 units");
  refuses([](SharingProblem& p) { p.modules[1].times[3] = {0}; }, "where: A; found: 0 ns");
  refuses([](SharingProblem& p) { p.modules[2].after = {2}; },
          "does not follow what it depends on; where: T; found: module 2");
  refuses([](SharingProblem& p) { p.modules[0].bandwidth = {0.1}; }, "where: V; found: 1");
  refuses([](SharingProblem& p) { p.modules[0].bandwidth[2] = 1.5; },
          "where: V.bandwidth; found: 1.5");
  refuses([](SharingProblem& p) { p.modules[0].busy = {0.5}; },
          "where: V; found: 1 and 0 of whole ones; expected: 8 and 0, or none");
  refuses(
      [](SharingProblem& p) {
        p.modules[0].whole_busy = {1, 1};
      },
      "where: V; found: 0 and 2 of whole ones");
  refuses([](SharingProblem& p) { p.modules[0].busy.assign(8, 1.1); },
          "where: V.busy; found: 1.1; expected: 0 to 1");
  refuses([](SharingProblem& p) { p.modules[0].memory = {{1}}; },
          "memory of another size; where: V");
  refuses([](SharingProblem& p) { p.interference.sum = -1; }, "where: interference; found: -1");
}

}  // namespace
}  // namespace tributary::plan
