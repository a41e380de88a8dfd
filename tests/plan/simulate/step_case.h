#pragma once

#include "core/random.h"
#include "plan/simulate/engine/step_times.h"
#include "schedule/pipeline/time_schedule.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::plan {

/// A schedule with the program made of it, and what everything takes.
struct StepCase {
  schedule::Schedule schedule;
  StepProgram program;
  StepLoad load;
  Network network;
};

/// Messages arrive at once, optimizer and reductions take no time.
inline StepCase make_case(const schedule::Pipeline& pipeline) {
  schedule::Schedule lowered = lower_schedule(schedule_passes(pipeline), {});
  StepProgram program(lowered, {});
  const schedule::ScheduleCosts costs = costs_of(program.map());
  StepLoad load;
  for (int action = 0; action < program.actions(); ++action)
    load.duration.push_back(costs.action(program.lane_of(action), program.action(action)));
  Network network;
  network.routes.assign(program.channels().size(), {.latency = pipeline.hop});
  return {std::move(lowered), std::move(program), std::move(load), std::move(network)};
}

/// A random pipeline with times that differ between microbatches and replicas.
inline StepCase draw_case(std::uint64_t seed) {
  RandomStream random(seed, "simulate");
  StepCase drawn = make_case(schedule::draw_pipeline(random));
  for (int action = 0; action < drawn.program.actions(); ++action)
    if (drawn.program.kind(action) == StepKind::kPass && random.below(3) == 0)
      drawn.load.duration[action].count += random.between(0, 60);
  return drawn;
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

/// Features wait in a pool of some microbatches.
inline void keep_features_in_a_pool(StepCase& of, int capacity) {
  for (std::size_t i = 0; i < of.network.routes.size(); ++i)
    if (of.program.channels()[i].op == schedule::Op::kSendFeatures)
      of.network.routes[i].capacity = capacity;
}

/// Lanes and pools that the step before holds for some time.
inline void begin_as_left(StepCase& of, RandomStream& random) {
  for (int lane = 0; lane < of.program.lanes(); ++lane)
    of.load.begins.push_back({random.between(0, 100)});
  for (std::size_t message = 0; message < of.program.messages().size(); ++message)
    of.load.vacant.push_back({random.between(0, 200)});
}

/// Reductions and steps that take time.
inline void draw_meetings(StepCase& of, RandomStream& random) {
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kReduce ||
        of.program.kind(action) == StepKind::kOptimize)
      of.load.duration[action] = {random.between(0, 90)};
}

}  // namespace tributary::plan
