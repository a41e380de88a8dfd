#include "memory/simulate/simulate_pool.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <set>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "memory/simulate/invariants.h"
#include "tests/memory/full_size.h"

namespace tributary::memory {
namespace {

/// TRIB_SIMULATE_FIRST begins elsewhere, so that one seed can be run again.
std::uint64_t first_seed() {
  const char* text = std::getenv("TRIB_SIMULATE_FIRST");
  return text == nullptr ? 0 : std::stoull(text);
}

TEST(SimulatePool, KeepsItsInvariantsUnderRandomFaults) {
  SimulatedRun sum;
  const std::uint64_t first = first_seed();
  for (std::uint64_t seed = first; seed < first + cases(1'000, 100'000); ++seed) {
    try {
      const SimulatedWorkload workload = draw_workload(seed);
      const SimulatedRun run = simulate_pool(workload);
      sum.restarts += run.restarts;
      sum.replacements += run.replacements;
      sum.renewed += run.renewed;
      sum.failed_gets += run.failed_gets;
      sum.refused += run.refused;
      sum.parts += run.parts;
      sum.cancelled += run.cancelled;
      sum.unmade += run.unmade;
      sum.given_up += run.given_up;

      std::vector<std::uint64_t> planned;  // I13: every sample once
      for (std::uint64_t step = 0; step < workload.steps; ++step) {
        std::set<std::uint64_t> samples;
        for (const PlannedObject& object : plan_of(workload, step).objects)
          if (!object.lender) samples.insert(object.key.sample);
        planned.insert(planned.end(), samples.begin(), samples.end());
      }
      std::vector<std::uint64_t> committed = run.committed_samples;
      std::ranges::sort(committed);
      ASSERT_EQ(committed, planned) << "seed " << seed;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": " << error.what();
    }
  }
  EXPECT_GT(sum.restarts, 100);  // otherwise the faults would say little
  EXPECT_GT(sum.replacements, 100);
  EXPECT_GT(sum.renewed, 200);
  EXPECT_GT(sum.failed_gets, 1'000);
  EXPECT_GT(sum.refused, 10);
  EXPECT_GT(sum.parts, 10'000);
  EXPECT_GT(sum.cancelled, 100);
  EXPECT_GT(sum.unmade, 10);
  EXPECT_GT(sum.given_up, 100);
}

/// A producer gets objects of the oldest step from a lost one, while its pages are held for objects
/// of later steps. They wait for what is lent once the oldest step is committed.
TEST(SimulatePool, CommitsTheOldestStepWhileLaterOnesWaitForLentObjects) {  // I12
  std::uint64_t cancelled = 0;
  for (const std::uint64_t seed : {6410, 10856})  // each has stalled
    cancelled += simulate_pool(draw_workload(seed)).cancelled;
  EXPECT_GT(cancelled, 0);
}

TEST(SimulatePool, LogsTheSamePlansWhateverHappens) {  // I14
  SimulatedWorkload workload = draw_workload(1);
  workload.faults = {};
  workload.lends = false;
  workload.producers = 1;
  workload.pages = 128;
  const Digest plan_log = simulate_pool(workload).plan_log;
  std::set<std::int64_t> times;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const SimulatedWorkload other = draw_workload(seed);
    workload.seed = seed;
    workload.faults = other.faults;
    workload.producers = other.producers;
    const SimulatedRun run = simulate_pool(workload);
    EXPECT_EQ(run.plan_log, plan_log) << seed;
    times.insert(run.time.count);
  }
  EXPECT_GT(times.size(), 25);  // the runs differ
}

TEST(SimulatePool, GoesOnOverLinksThatBreakForAMoment) {
  std::uint64_t renewed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SimulatedWorkload workload = draw_workload(seed);
    // A heartbeat more than it is less than the fence.
    workload.faults = {.broken_links = 1, .longest_break = {150'000'000}};
    workload.patience = {};
    const SimulatedRun run = simulate_pool(workload);
    EXPECT_EQ(run.replacements + run.restarts, 0) << "seed " << seed;  // the same members
    renewed += run.renewed;
  }
  EXPECT_GT(renewed, 40);
}

TEST(SimulatePool, RepeatsARunExactly) {
  for (const std::uint64_t seed : {3, 4, 5}) {
    const SimulatedRun one = simulate_pool(draw_workload(seed));
    const SimulatedRun again = simulate_pool(draw_workload(seed));
    EXPECT_EQ(one.events, again.events);
    EXPECT_EQ(one.time, again.time);
    EXPECT_EQ(one.failed_gets, again.failed_gets);
  }
}

TEST(SimulatePool, EndsWithAnErrorWhenTheOldestStepCannotCommit) {  // I12
  SimulatedWorkload workload = draw_workload(1);
  workload.faults = {};
  workload.producers = 1;
  workload.pages = 1 + workload.reserve_pages;  // no step fits
  EXPECT_THROW(static_cast<void>(simulate_pool(workload)), Error);
}

/// A process with one object of an owner, to break what Invariants looks at.
class InvariantsTest : public testing::Test {
 protected:
  InvariantsTest() {
    process.identity = {.role = Role::kProducer, .process = 1, .epoch = 1};
    process.generations = std::vector<std::atomic<std::uint64_t>>(8);
    process.owner = std::make_unique<OwnerCore>(
        OwnerConfig{.identity = {.process = 1, .epoch = 1},
                    .place = {.process = 1, .page_bytes = 64, .pages = 8},
                    .reserve_pages = 2},
        PageTable{}, Generations(process.generations));
    invariants.check(process);
    give(AssignMessage{.version = 1, .objects = {{.key = {.sample = 4}, .pages = 2}}});
    const auto actions = give(Credit{.granted_pages = 2, .sequence = 1, .epoch = 1});
    for (const Action& action : actions)
      if (const auto* encode = std::get_if<Encode>(&action))
        static_cast<void>(process.step(Encoded{.slot = encode->slot, .description = {.bytes = 100}},
                                       TimePoint{}));
    invariants.check(process);
  }
  std::vector<Action> give(const Message& message, Role role = Role::kController) {
    return process.step(MessageReceived{.from = {.role = role}, .message = message}, TimePoint{});
  }
  [[nodiscard]] std::string broken() {
    try {
      invariants.check(process);
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(text.find("invariant"), 13);
    }
    return "none";
  }

  SimulatedProcess process;
  Invariants invariants;
};

TEST_F(InvariantsTest, SeeALeaseWithoutAGrant) {
  EXPECT_EQ(broken(), "none");
  const std::uint64_t gva = GlobalAddress::make(Tier::kDram, 1, 0).value().bits();
  give(LeaseMessage{.lease_id = 1, .entries = {{gva, 1}}}, Role::kConsumer);
  EXPECT_EQ(process.owner->objects().leases(), 1);
  EXPECT_EQ(broken(), "invariant I9:");
}

TEST_F(InvariantsTest, SeePagesThatChangeUnderAGrant) {
  process.grants[1] = {.reply = {}, .runs = {{.first = 0, .count = 2}}};
  process.generations[1].store(9);
  EXPECT_EQ(broken(), "invariant I8:");
}

TEST_F(InvariantsTest, SeeAProcessThatForgets) {
  give(CommitMessage{.step = 3});
  EXPECT_EQ(broken(), "none");
  process.owner = std::make_unique<OwnerCore>(
      OwnerConfig{.identity = {.process = 1, .epoch = 1},
                  .place = {.process = 1, .page_bytes = 64, .pages = 8}},
      PageTable{}, Generations(process.generations));
  EXPECT_EQ(broken(), "invariant I16");
}

}  // namespace
}  // namespace tributary::memory
