// Making and timing action lists. Goal on one core: 10 us for a 1F1B simulation of 8 stages and 32
// microbatches whose graph is made, so that a planner can ask for many costs.

#include <benchmark/benchmark.h>

#include "schedule/order/all_orders.h"
#include "schedule/pipeline/time_schedule.h"

namespace tributary::schedule {
namespace {

Pipeline make_pipeline(config::PipelineOrder order) {
  PipelineModule module{.name = "backbone", .order = order, .stages = 8};
  module.chunks = traits_of(order).chunks == 0 ? 2 : traits_of(order).chunks;
  return {.modules = {module}, .edges = {}, .microbatches = 32};
}

void time_one(benchmark::State& state, config::PipelineOrder order) {
  const Schedule schedule = schedule_passes(make_pipeline(order));
  const PipelineMap map(schedule.pipeline);
  const DependencyGraph graph(schedule, map, {});
  const ScheduleCosts costs = costs_of(map);
  for (auto _ : state) benchmark::DoNotOptimize(makespan_of(graph, costs));
  state.counters["actions"] = graph.actions();
}

void make_one(benchmark::State& state, config::PipelineOrder order) {
  const Pipeline pipeline = make_pipeline(order);
  for (auto _ : state) {
    const Schedule schedule = schedule_passes(pipeline);
    const PipelineMap map(schedule.pipeline);
    benchmark::DoNotOptimize(DependencyGraph(schedule, map, {}).nodes());
  }
}

BENCHMARK_CAPTURE(time_one, 1f1b, config::PipelineOrder::k1f1b)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(time_one, zb_v, config::PipelineOrder::kZbV)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(make_one, 1f1b, config::PipelineOrder::k1f1b)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(make_one, zb_v, config::PipelineOrder::kZbV)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(make_one, v_half, config::PipelineOrder::kVHalf)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tributary::schedule
