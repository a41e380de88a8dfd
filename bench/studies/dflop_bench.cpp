// The published objective and the flow allocator. Goals on one core: 1,024 devices and 2,048
// samples
// <= 10 ms, allocation over 256 devices <= 1 ms. The reference values of the first are tested in
// tests/studies/dflop.

#include <benchmark/benchmark.h>

#include "plan/cut_layers/split_layers.h"
#include "plan/flow/allocate_flow.h"
#include "studies/dflop/search_3d.h"
#include "tests/studies/dflop/problem_3d_oracle.h"

namespace tributary::studies {
namespace {

void search(benchmark::State& state, const SyntheticModel& model) {
  const Problem3d problem = synthetic_problem(model, state.range(0), state.range(1));
  Search3dResult found;
  for (auto _ : state) {
    found = search_3d(problem);
    benchmark::DoNotOptimize(found.plans.data());
  }
  state.counters["evaluations"] = static_cast<double>(found.certificate.evaluations);
  state.counters["step_s"] = found.plans.at(0).seconds;
  state.counters["gap"] = found.certificate.gap();
}
BENCHMARK_CAPTURE(search, a, kModelA)
    ->Args({256, 2048})
    ->Args({1024, 2048})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, b, kModelB)
    ->Args({256, 2048})
    ->Args({1024, 2048})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, c, kModelC)
    ->Args({256, 2048})
    ->Args({1024, 2048})
    ->Unit(benchmark::kMillisecond);

void search_200(benchmark::State& state) {
  const Problem3d problem = synthetic_problem(kModelC, 1024, 2048);
  for (auto _ : state) benchmark::DoNotOptimize(search_3d(problem, {.keep = 200}).plans.data());
}
BENCHMARK(search_200)->Unit(benchmark::kMillisecond);

void exhaustive(benchmark::State& state) {
  const Problem3d problem = synthetic_problem(kModelC, state.range(0), state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(best_by_brute_force(problem).seconds);
}
BENCHMARK(exhaustive)->Args({256, 2048})->Iterations(1)->Unit(benchmark::kMillisecond);

/// Every division of up to 256 devices into tp and dp (and pp for the backbone).
plan::FlowModule flow_module(const char* name, std::int64_t stages, double second_of_sample) {
  plan::FlowModule module = {.name = name};
  for (std::int64_t tp = 1; tp <= 8; tp *= 2) {
    for (std::int64_t pp = 1; pp <= stages; ++pp) {
      for (std::int64_t dp = 1; tp * pp * dp <= 256; ++dp) {
        if (256 % dp != 0) continue;
        const double speed =
            double(tp * pp * dp) * (1 - 0.05 * double(tp)) / (1 + 0.02 * double(pp));
        module.candidates.push_back(
            {tp * pp * dp, {std::llround(1024e9 * second_of_sample / speed) + 1}});
      }
    }
  }
  return module;
}

void flow(benchmark::State& state) {
  const plan::FlowProblem problem = {
      .encoders = {flow_module("vision", 1, 0.3), flow_module("audio", 1, 0.1)},
      .backbone = flow_module("backbone", 64, 2.0),
      .devices = 256};
  const auto order = static_cast<plan::FlowOrder>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(plan::allocate_flow(problem, order).devices);
  state.counters["candidates"] = static_cast<double>(problem.encoders[0].candidates.size() * 2 +
                                                     problem.backbone.candidates.size());
}
BENCHMARK(flow)->ArgName("order")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void split(benchmark::State& state) {
  plan::SplitProblem problem;
  problem.units.push_back({.forward = {150'000}});
  for (int layer = 0; layer < 80; ++layer) {
    problem.units.push_back({.forward = {1'000'000 + 1000 * (layer % 7)},
                             .input_gradient = {1'000'000},
                             .weight_gradient = {1'000'000},
                             .recompute_selective = {100'000},
                             .recompute_full = {1'000'000},
                             .state = {10},
                             .activation = {4},
                             .activation_selective = {3},
                             .activation_full = {1}});
  }
  problem.units.push_back(
      {.forward = {1'400'000}, .input_gradient = {1'400'000}, .weight_gradient = {1'400'000}});
  problem.stages = state.range(0);
  problem.microbatches = 64;
  problem.memory = Bytes{80 / problem.stages * 10 + 200};
  for (auto _ : state)
    benchmark::DoNotOptimize(plan::split_layers(problem).certificate.value.count);
}
BENCHMARK(split)->ArgName("stages")->Arg(4)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::studies
