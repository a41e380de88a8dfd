// Stage grouping on devices in tenths. Goal on one core: 10 modules on 4 devices <= 1 s, 16 <= 15
// s, both proven optimal. Each iteration takes the next of ten random problems, so the mean is over
// problems; `worst_s` is the slowest.

#include <algorithm>
#include <benchmark/benchmark.h>

#include "core/stopwatch.h"
#include "plan/sharing/staging.h"
#include "tests/plan/sharing/staging_oracle.h"

namespace tributary::plan {
namespace {

constexpr std::uint64_t kProblems = 10;

void group(benchmark::State& state, bool is_layered) {
  std::uint64_t seed = 0;
  double worst = 0;
  double evaluations = 0;
  double greedy_share = 0;
  double min_share = 1;
  for (auto _ : state) {
    RandomStream random(seed++ % kProblems, "bench");
    SharingProblem problem = random_sharing_problem(random, state.range(0), state.range(1), 10);
    if (is_layered) {  // encoders, a backbone, decoders
      for (std::int32_t module = 12; module < state.range(0); ++module) {
        for (std::int32_t before = 0; before < std::min(module, 13); ++before) {
          if (module == 12 || before == 12) problem.modules[module].after.push_back(before);
        }
      }
    }
    const Stopwatch watch;
    const Staging found = group_stages(problem);
    worst = std::max(worst, watch.seconds());
    if (found.certificate.status != Status::kOptimal) state.SkipWithError("not proven");
    evaluations += static_cast<double>(found.certificate.evaluations);
    state.PauseTiming();
    const double share = static_cast<double>(found.certificate.value.count) /
                         static_cast<double>(merge_stages(problem).certificate.value.count);
    greedy_share += share;
    min_share = std::min(min_share, share);
    state.ResumeTiming();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["worst_s"] = worst;
  state.counters["stages_looked_at"] = evaluations / runs;
  state.counters["optimum_over_greedy"] = greedy_share / runs;
  state.counters["min_optimum_over_greedy"] = min_share;
}

BENCHMARK_CAPTURE(group, independent, false)
    ->ArgNames({"modules", "devices"})
    ->Args({8, 4})
    ->Args({10, 4})
    ->Args({10, 8})
    ->Args({10, 32})
    ->Args({12, 4})
    ->Args({14, 4})
    ->Args({16, 4})
    ->Iterations(kProblems)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(group, layered, true)
    ->ArgNames({"modules", "devices"})
    ->Args({20, 4})
    ->Args({20, 8})
    ->Iterations(kProblems)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tributary::plan
