// One simulated step. Goals on one core: 50 us for 1F1B with 8 stages and 64 microbatches, 50 ms
// for 1,024 ranks and 5 s for 100,000, where replicas with equal inputs are simulated once; and the
// same with all lanes simulated, as unequal inputs need.

#include <benchmark/benchmark.h>

#include "simulate/engine/lane_account.h"
#include "simulate/engine/step_times.h"
#include "simulate/program/step_bound.h"

namespace tributary::simulate {
namespace {

struct Step {
  StepProgram program;
  StepLoad load;
  Network network;
};

Step make_step(int stages, int microbatches, int replicas) {
  schedule::PipelineModule backbone{.name = "backbone", .stages = stages, .replicas = replicas};
  backbone.boundary = {1 << 20};
  const schedule::Pipeline pipeline{
      .modules = {backbone}, .edges = {}, .microbatches = microbatches};
  Step step{StepProgram(lower_schedule(schedule_passes(pipeline), {}), {}), {}, {}};
  for (int action = 0; action < step.program.actions(); ++action) {
    const schedule::Op op = step.program.action(action).op;
    step.load.duration.push_back({op == schedule::Op::kForward ? 10'000 : 20'000});
  }
  step.network.routes.assign(step.program.channels().size(),
                             {.latency = {2'000}, .bytes_per_ns = 25});
  return step;
}

/// Each lane sends and receives over one port of its own. Messages of 5 us take turns with passes
/// of 10 and 20 us and never meet; those of 42 us always do.
void share_ports(Step& step, Bytes bytes) {
  step.load.bytes.assign(step.program.messages().size(), bytes);
  step.network.bytes_per_ns.assign(std::size_t{2} * step.program.lanes(), 25);
  for (std::size_t i = 0; i < step.network.routes.size(); ++i) {
    const Channel& channel = step.program.channels()[i];
    step.network.routes[i].links = {{.link = 2 * channel.from}, {.link = 2 * channel.to + 1}};
  }
}

void run(benchmark::State& state, const Step& step) {
  for (auto _ : state)
    benchmark::DoNotOptimize(time_step(step.program, step.load, step.network).makespan);
  state.counters["lanes"] = step.program.lanes();
  state.counters["actions"] = step.program.actions();
}

void simulate_step(benchmark::State& state) {
  run(state, make_step(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                       static_cast<int>(state.range(2))));
}
void with_shared_ports(benchmark::State& state, Bytes bytes) {
  Step step = make_step(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                        static_cast<int>(state.range(2)));
  share_ports(step, bytes);
  run(state, step);
}
void simulate_step_on_ports(benchmark::State& state) { with_shared_ports(state, {1 << 17}); }
void simulate_step_on_narrow_ports(benchmark::State& state) { with_shared_ports(state, {1 << 20}); }
/// Lists, program, load, simulation and account, from nothing.
void make_and_simulate(benchmark::State& state) {
  for (auto _ : state) {
    const Step step = make_step(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                                static_cast<int>(state.range(2)));
    const StepTimes times = time_step(step.program, step.load, step.network);
    benchmark::DoNotOptimize(account_lanes(step.program, step.load, times).size());
    benchmark::DoNotOptimize(bound_step(step.program, step.load, step.network).value());
  }
}

const std::vector<std::string> kArguments{"stages", "microbatches", "replicas"};
void one_pipeline(benchmark::internal::Benchmark* of) {
  of->ArgNames(kArguments)->Args({8, 64, 1})->Unit(benchmark::kMicrosecond);
}
void many_pipelines(benchmark::internal::Benchmark* of) {
  of->ArgNames(kArguments)->Args({8, 64, 128})->Args({16, 64, 781})->Unit(benchmark::kMillisecond);
}
BENCHMARK(simulate_step)->Apply(one_pipeline);
BENCHMARK(simulate_step_on_ports)->Apply(one_pipeline);
BENCHMARK(simulate_step_on_narrow_ports)->Apply(one_pipeline);
BENCHMARK(simulate_step)->Apply(many_pipelines);
BENCHMARK(simulate_step_on_ports)->Apply(many_pipelines);
BENCHMARK(simulate_step_on_narrow_ports)->Apply(many_pipelines);
BENCHMARK(make_and_simulate)
    ->ArgNames(kArguments)
    ->Args({8, 64, 1})
    ->Args({8, 64, 128})
    ->Args({16, 64, 781})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::simulate
