// The default search. Goal: 1,024 accelerators, 200 plans simulated, <= 2 s on one core.

#include <benchmark/benchmark.h>

#include "bench/plan/published_models.h"
#include "plan/search/search_plan.h"

namespace tributary::plan {
namespace {

PlanningProblem make_problem(const char* model, std::int64_t devices, std::int64_t samples) {
  PlanningProblem problem{.model = config::parse_graph_of_model(model, "bench"),
                          .cluster = config::read_cluster(TRIB_CLUSTER),
                          .devices = devices,
                          .batches = {}};
  for (std::uint64_t batch = 0; batch < 8; ++batch) {
    if (encoders_of(problem).empty()) {
      problem.batches.emplace_back(samples, simulate::SampleSize{.tokens = 4096});
    } else {
      problem.batches.push_back(simulate::draw_mixture(0, batch, samples));
    }
  }
  return problem;
}

/// Step 1 alone: cells, bounds, closed forms.
void list(benchmark::State& state, const char* model) {
  const PlanningProblem problem = make_problem(model, state.range(0), state.range(1));
  CandidateList found;
  for (auto _ : state) {
    ChainTables tables(problem);
    found = list_candidates(problem, tables);
    benchmark::DoNotOptimize(found.candidates.data());
  }
  state.counters["cells"] = static_cast<double>(found.cells);
  state.counters["estimates"] = static_cast<double>(found.estimates);
}

void search(benchmark::State& state, const char* model, int threads) {
  const PlanningProblem problem = make_problem(model, state.range(0), state.range(1));
  PlanSearch found;
  for (auto _ : state) {
    found = search_plan(problem, {.threads = threads});
    benchmark::DoNotOptimize(found.plans.data());
  }
  state.counters["judged"] = static_cast<double>(found.judged);
  state.counters["steps"] = static_cast<double>(found.certificate.evaluations);
  state.counters["step_s"] = 1e-9 * static_cast<double>(found.certificate.value.count);
  state.counters["gap"] = found.certificate.gap();
}

#define TRIB_SIZES \
  ->Args({64, 512})->Args({1024, 2048})->Unit(benchmark::kMillisecond)->UseRealTime()
BENCHMARK_CAPTURE(list, vl7, kVl7) TRIB_SIZES;
BENCHMARK_CAPTURE(list, vl72, kVl72) TRIB_SIZES;
BENCHMARK_CAPTURE(list, text70, kText70) TRIB_SIZES;
BENCHMARK_CAPTURE(search, vl7, kVl7, 1) TRIB_SIZES;
BENCHMARK_CAPTURE(search, vl7_all_cores, kVl7, 0) TRIB_SIZES;
BENCHMARK_CAPTURE(search, vl72, kVl72, 1) TRIB_SIZES;
BENCHMARK_CAPTURE(search, vl72_all_cores, kVl72, 0) TRIB_SIZES;
BENCHMARK_CAPTURE(search, text70, kText70, 1) TRIB_SIZES;
BENCHMARK_CAPTURE(search, text70_all_cores, kText70, 0) TRIB_SIZES;

}  // namespace
}  // namespace tributary::plan
