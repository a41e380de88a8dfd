#include "plan/flow/allocate_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "core/random.h"

namespace tributary::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The period of 1,024 samples at so many a second, in a unit that keeps the rates below whole.
Nanoseconds period_of(std::int64_t rate) { return {1'024'000'000'000 / rate}; }

FlowProblem reference_problem(std::int64_t devices) {
  const auto module = [](const char* name,
                         std::vector<std::pair<std::int64_t, std::int64_t>> rates) {
    FlowModule made = {.name = name};
    for (const auto& [count, rate] : rates) made.candidates.push_back({count, period_of(rate)});
    return made;
  };
  return {.encoders = {module("vision", {{2, 30}, {4, 56}, {8, 104}}),
                       module("audio", {{1, 50}, {2, 95}})},
          .backbone = module("backbone", {{8, 40}, {16, 78}, {24, 110}, {32, 140}}),
          .devices = devices};
}

std::vector<std::int64_t> devices_of(const FlowProblem& problem, const FlowAllocation& found) {
  std::vector<std::int64_t> devices;
  for (std::size_t module = 0; module < found.chosen.size(); ++module) {
    const FlowModule& owner =
        module < problem.encoders.size() ? problem.encoders[module] : problem.backbone;
    devices.push_back(owner.candidates.at(found.chosen[module]).devices);
  }
  return devices;
}

TEST(AllocateFlow, FindsTheReferenceAllocations) {
  struct Golden {
    std::int64_t devices, pace, other, used;
    std::vector<std::int64_t> split;
  };
  const Golden golden[] = {{16, 40, 50, 13, {4, 1, 8}},
                           {24, 56, 78, 22, {4, 2, 16}},
                           {32, 78, 95, 26, {8, 2, 16}},
                           {40, 95, 110, 34, {8, 2, 24}},
                           {48, 95, 110, 34, {8, 2, 24}}};
  for (const Golden& expected : golden) {
    SCOPED_TRACE(expected.devices);
    const FlowProblem problem = reference_problem(expected.devices);
    for (const FlowOrder order : {FlowOrder::kPublished, FlowOrder::kExact}) {
      const FlowAllocation found = allocate_flow(problem, order);
      EXPECT_EQ(found.certificate.status, Status::kOptimal);
      EXPECT_EQ(found.certificate.value, period_of(expected.pace));
      EXPECT_EQ(found.certificate.lower_bound, found.certificate.value);
      EXPECT_EQ(std::max(found.production, found.consumption), period_of(expected.pace));
      EXPECT_EQ(std::min(found.production, found.consumption), period_of(expected.other));
      EXPECT_EQ(found.devices, expected.used);
      EXPECT_EQ(devices_of(problem, found), expected.split);
    }
  }
}

FlowProblem random_flow_problem(RandomStream& random) {
  const auto module = [&](std::string name) {
    FlowModule made = {.name = std::move(name)};
    const std::int64_t candidates = random.between(1, 5);
    for (std::int64_t i = 0; i < candidates; ++i) {
      made.candidates.push_back({random.between(1, 9), {random.between(1, 12)}});
    }
    return made;
  };
  FlowProblem problem = {.encoders = {}, .backbone = module("backbone")};
  const std::int64_t encoders = random.between(0, 3);
  for (std::int64_t i = 0; i < encoders; ++i) problem.encoders.push_back(module(str("e", i)));
  problem.devices = random.between(1, 30);
  return problem;
}

/// What an order looks at, first to last; all of it is made small.
using Key = std::tuple<std::int64_t, double, std::int64_t, double, std::vector<std::int32_t>>;

Key key_of(const FlowProblem& problem, FlowOrder order, const std::vector<std::int32_t>& chosen,
           std::int64_t devices) {
  std::int64_t production = 0;
  for (std::size_t i = 0; i < problem.encoders.size(); ++i) {
    production = std::max(production, problem.encoders[i].candidates[chosen[i]].period.count);
  }
  const std::int64_t consumption = problem.backbone.candidates[chosen.back()].period.count;
  const auto p = static_cast<double>(production);
  const auto c = static_cast<double>(consumption);
  const double difference = production == 0 ? 0 : std::abs(1 / p - 1 / c);
  return order == FlowOrder::kPublished
             ? Key(std::max(production, consumption), difference, devices, 0, chosen)
             : Key(std::max(production, consumption), 0, devices, p, chosen);
}

void enumerate(const FlowProblem& problem, FlowOrder order, std::vector<std::int32_t>& chosen,
               std::int64_t devices, std::optional<Key>& best) {
  if (devices > problem.devices) return;
  if (chosen.size() == problem.encoders.size() + 1) {
    const Key key = key_of(problem, order, chosen, devices);
    if (!best || key < *best) best = key;
    return;
  }
  const FlowModule& module =
      chosen.size() < problem.encoders.size() ? problem.encoders[chosen.size()] : problem.backbone;
  for (std::size_t i = 0; i < module.candidates.size(); ++i) {
    chosen.push_back(static_cast<std::int32_t>(i));
    enumerate(problem, order, chosen, devices + module.candidates[i].devices, best);
    chosen.pop_back();
  }
}

TEST(AllocateFlow, EqualsBruteForceOnRandomProblems) {
  int infeasible = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "flow");
    const FlowProblem problem = random_flow_problem(random);
    for (const FlowOrder order : {FlowOrder::kPublished, FlowOrder::kExact}) {
      std::vector<std::int32_t> chosen;
      std::optional<Key> best;
      enumerate(problem, order, chosen, 0, best);
      const FlowAllocation found = allocate_flow(problem, order);
      ASSERT_EQ(found.certificate.status == Status::kInfeasible, !best);
      if (!best) {
        ++infeasible;
        continue;
      }
      EXPECT_EQ(key_of(problem, order, found.chosen, found.devices), *best);
      EXPECT_EQ(found.certificate.value.count, std::get<0>(*best));
      EXPECT_LE(found.devices, problem.devices);
    }
  }
  EXPECT_GT(infeasible, 20);
}

TEST(AllocateFlow, IsNeverSlowerWithMoreDevices) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "budget");
    FlowProblem problem = random_flow_problem(random);
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (problem.devices = 1; problem.devices <= 40; ++problem.devices) {
      const Certificate found = allocate_flow(problem, FlowOrder::kExact).certificate;
      if (found.status == Status::kInfeasible) continue;
      EXPECT_LE(found.value.count, last);
      last = found.value.count;
    }
  }
}

TEST(AllocateFlow, DoesNotMissDominatedCandidates) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, "dominated");
    FlowProblem problem = random_flow_problem(random);
    const FlowAllocation before = allocate_flow(problem, FlowOrder::kExact);
    FlowCandidate worse = problem.backbone.candidates[0];
    worse.devices += 1;
    worse.period.count += 1;
    problem.backbone.candidates.push_back(worse);
    EXPECT_EQ(allocate_flow(problem, FlowOrder::kExact).certificate.value,
              before.certificate.value);
  }
}

TEST(AllocateFlow, SaysHowManyDevicesAreMissing) {
  const FlowAllocation found = allocate_flow(reference_problem(7), FlowOrder::kExact);
  EXPECT_EQ(found.certificate.status, Status::kInfeasible);
  EXPECT_EQ(found.certificate.limit,
            "devices: the smallest candidates need 11 (vision 2, audio 1, backbone 8), 4 above the "
            "7 there are");
}

TEST(AllocateFlow, NamesWhatCannotBeUsed) {
  FlowProblem problem = reference_problem(16);
  problem.encoders[1].candidates[1].period = {0};
  EXPECT_THAT([&] { (void)allocate_flow(problem, FlowOrder::kExact); },
              ThrowsMessage<Error>(HasSubstr("where: audio candidate 1; found: 2 devices, 0 ns")));
  problem.encoders[1].candidates.clear();
  EXPECT_THAT([&] { (void)allocate_flow(problem, FlowOrder::kExact); },
              ThrowsMessage<Error>(HasSubstr("module without a candidate; where: audio")));
  EXPECT_THAT([&] { (void)allocate_flow(reference_problem(0), FlowOrder::kExact); },
              ThrowsMessage<Error>(HasSubstr("where: devices; found: 0")));
}

}  // namespace
}  // namespace tributary::plan
