#pragma once

#include <gtest/gtest.h>

#include "core/random.h"
#include "schedule/pipeline/time_schedule.h"
#include "simulate/critical_path.h"
#include "simulate/engine/step_times.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::simulate {

/// A schedule with the program made of it, and what everything takes.
struct StepCase {
  schedule::Schedule schedule;
  schedule::Buffers buffers;
  StepProgram program;
  StepLoad load;
  Network network;
};

/// Messages arrive at once, optimizer and reductions take no time. What comes in whole batches has
/// room for them.
inline StepCase make_case(const schedule::Pipeline& pipeline, const schedule::Buffers& buffers = {},
                          std::vector<bool> whole_batches = {}) {
  schedule::Schedule lowered = lower_schedule(schedule_passes(pipeline), buffers);
  StepProgram program(lowered, buffers, std::move(whole_batches));
  const schedule::ScheduleCosts costs = costs_of(program.map());
  StepLoad load;
  for (int action = 0; action < program.actions(); ++action)
    load.duration.push_back(costs.action(program.lane_of(action), program.action(action)));
  Network network;
  for (const Channel& channel : program.channels())
    network.routes.push_back({.latency = pipeline.hop,
                              .capacity = program.comes_in_whole_batches(channel) &&
                                                  !program.map().goes_in_one_batch(channel.edge)
                                              ? channel.messages
                                              : 0});
  return {std::move(lowered), buffers, std::move(program), std::move(load), std::move(network)};
}

/// Two frozen encoders send 100 bytes each to one backbone, once.
inline StepCase make_two_encoders() {
  return make_case({.modules = {{.name = "a", .trains = {false}, .boundary = {100}},
                                {.name = "b", .trains = {false}, .boundary = {100}},
                                {.name = "backbone"}},
                    .edges = {{.from = 0, .to = 2}, {.from = 1, .to = 2}},
                    .microbatches = 1});
}

inline schedule::Buffers draw_buffers(RandomStream& random) {
  return {.receive = static_cast<int>(random.between(1, 4)),
          .send = static_cast<int>(random.between(1, 4))};
}

/// Passes differ between microbatches and replicas.
inline void vary_passes(StepCase& of, RandomStream& random) {
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kPass && random.below(3) == 0)
      of.load.duration[action].count += random.between(0, 60);
}

/// A pipeline with times that differ between microbatches and replicas.
inline StepCase vary_case(const schedule::Pipeline& pipeline, RandomStream& random,
                          const std::vector<bool>& whole = {}) {
  StepCase drawn = make_case(pipeline, draw_buffers(random), whole);
  vary_passes(drawn, random);
  return drawn;
}

/// The same of a random pipeline.
inline StepCase draw_case(std::uint64_t seed) {
  RandomStream random(seed, "simulate");
  const schedule::Pipeline pipeline = schedule::draw_pipeline(random);
  return vary_case(pipeline, random);
}

/// The same with an encoder on the ranks of the backbone.
inline StepCase draw_colocated_case(std::uint64_t seed) {
  RandomStream random(seed, "simulate colocated");
  const schedule::Pipeline pipeline = schedule::draw_colocated(random);
  return vary_case(pipeline, random);
}

/// The same with frozen encoders, of which at least one gives on its features in whole batches.
inline StepCase draw_whole_batches(std::uint64_t seed) {
  RandomStream random(seed, "whole batches");
  schedule::Pipeline pipeline;
  while (pipeline.edges.empty()) pipeline = schedule::draw_pipeline(random);
  for (std::size_t module = 0; module + 1 < pipeline.modules.size(); ++module)
    pipeline.modules[module].trains.assign(
        static_cast<std::size_t>(pipeline.modules[module].virtual_stages()), false);
  std::vector<bool> whole(pipeline.edges.size());
  for (std::size_t edge = 0; edge < whole.size(); ++edge) whole[edge] = random.below(2) == 0;
  whole[random.below(whole.size())] = true;
  return vary_case(pipeline, random, whole);
}

/// Each lane has an entry and an exit that all its messages share, and messages have sizes.
inline void share_links(StepCase& of, RandomStream& random) {
  for (int lane = 0; lane < 2 * of.program.lanes(); ++lane)
    of.network.bytes_per_ns.push_back(static_cast<double>(random.between(1, 8)));
  for (std::size_t i = 0; i < of.network.routes.size(); ++i) {
    const Channel& channel = of.program.channels()[i];
    Route& route = of.network.routes[i];
    route.bytes_per_ns = static_cast<double>(random.between(1, 12));
    route.links = {{.link = 2 * channel.from}, {.link = 2 * channel.to + 1}};
  }
  for (std::size_t message = 0; message < of.program.messages().size(); ++message)
    of.load.bytes.push_back({random.between(0, 200)});
}

/// Features wait in a pool of some microbatches, unless they come in whole batches.
inline void keep_features_in_a_pool(StepCase& of, int capacity) {
  for (std::size_t i = 0; i < of.network.routes.size(); ++i)
    if (of.program.channels()[i].op == schedule::Op::kSendFeatures &&
        !of.program.comes_in_whole_batches(of.program.channels()[i]))
      of.network.routes[i].capacity = capacity;
}

/// Lanes and pools that the step before holds for some time.
inline void begin_as_left(StepCase& of, RandomStream& random) {
  for (int lane = 0; lane < of.program.lanes(); ++lane)
    of.load.begins.push_back({random.between(0, 100)});
  for (std::size_t message = 0; message < of.program.messages().size(); ++message)
    of.load.vacant.push_back({random.between(0, 200)});
}

/// All times of both, to the bit.
inline bool are_equal(const StepTimes& a, const StepTimes& b) {
  const auto times_of = [](const StepTimes& of) {
    std::vector<Nanoseconds> times{of.makespan};
    for (const ActionTimes& each : of.actions)
      times.insert(times.end(), {each.reached, each.start, each.end});
    for (const MessageTimes& each : of.messages)
      times.insert(times.end(), {each.given, each.posted, each.arrived, each.taken});
    return times;
  };
  return times_of(a) == times_of(b);
}

/// Reductions and steps that take time. Lanes ahead have nothing to update.
inline void draw_meetings(StepCase& of, RandomStream& random) {
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kReduce ||
        (of.program.kind(action) == StepKind::kOptimize &&
         !of.program.map().is_ahead(of.program.lane_of(action))))
      of.load.duration[action] = {random.between(0, 90)};
}

/// The parts of the critical path lie end to end, from the beginning of the step to its end.
inline testing::AssertionResult path_fills_step(const StepCase& of) {
  const StepTimes times = time_step(of.program, of.load, of.network);
  if (!times.blocked.empty())
    return testing::AssertionFailure() << describe_blocked(of.program, times);
  Nanoseconds clock;
  for (const PathPart& part : critical_path(of.program, of.network, times)) {
    if (part.start != clock)
      return testing::AssertionFailure()
             << "a part starts at " << part.start.count << ", not at " << clock.count;
    clock = part.end;
  }
  if (clock == times.makespan) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "the path ends at " << clock.count << ", the step at " << times.makespan.count;
}

}  // namespace tributary::simulate
