#pragma once

#include <gtest/gtest.h>
#include <vector>

#include "core/random.h"
#include "simulate/engine/run_ahead.h"
#include "tests/simulate/plan_case.h"

namespace tributary::simulate {

constexpr std::int64_t kLatency = 1000;
constexpr std::int64_t kOptimizer = 50;

/// A nanosecond for each patch, three for each token; features have no size.
class PlainCosts final : public cost::StageCosts {
 public:
  [[nodiscard]] cost::StageCost cost(int module, int,
                                     const cost::MicrobatchShape& shape) const override {
    const auto tokens = static_cast<std::int64_t>(shape.backbone.tokens);
    if (module == 1) return {.forward = {static_cast<std::int64_t>(shape.encoder.tokens)}};
    return {.forward = {tokens}, .input_gradient = {}, .weight_gradient = {2 * tokens}};
  }
  [[nodiscard]] cost::StageState state(int module, int) const override {
    return {.optimizer_step = {module == 1 ? 0 : kOptimizer}};
  }
};

/// One rank that encodes and one that trains.
inline config::Plan plan_of(config::Placement placement) {
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules) {
    module.mesh = {};
    module.stages.clear();
    module.ranks = {module.name == "backbone" ? 0 : 1};
    if (module.name == "vision") module.placement = placement;
  }
  return plan;
}

inline cost::MicrobatchShape shape_of(std::int64_t patches, std::int64_t tokens) {
  const auto size = [](std::int64_t count) {
    return cost::PassShape{.tokens = static_cast<double>(count)};
  };
  return {.backbone = size(tokens), .encoder = size(patches)};
}

using Step = std::vector<cost::MicrobatchShape>;

/// Steps of 1 to 8 microbatches of any sizes.
inline std::vector<Step> draw_steps(RandomStream& random) {
  const std::int64_t max_patches = random.between(100, 9000);
  std::vector<Step> steps(1 + random.below(6));
  for (Step& step : steps)
    for (std::uint64_t i = 0; i <= random.below(8); ++i)
      step.push_back(shape_of(random.between(1, max_patches), random.between(1, 2000)));
  return steps;
}

inline Simulation simulate_steps(const config::Plan& plan, const std::vector<Step>& steps, int pool,
                                 int batches_ahead = -1) {
  SimulationOptions options{.steps = std::ssize(steps),
                            .samples = {.kind = SampleSource::Kind::kGiven},
                            .network = {.share_links = false, .pool_microbatches = pool},
                            .batches_ahead = batches_ahead};
  for (const Step& step : steps) options.samples.given.push_back({{step}, {step}});
  return simulate(plan, PlainCosts(), small_cluster(2), options);
}

/// The parts of the critical path follow each other from the beginning of the step to its end.
inline void expect_whole_path(const Simulation& of) {
  Nanoseconds clock;
  for (const PathPart& part : of.critical_path) {
    EXPECT_EQ(part.start, clock);
    clock = part.end;
  }
  EXPECT_EQ(clock, of.times.makespan);
}

}  // namespace tributary::simulate
