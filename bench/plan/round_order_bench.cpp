// What the order of a step's rounds is worth: the plans that a search finds, simulated with the
// rounds of their level microbatches in other orders. Counters: the mean step in milliseconds with
// the costliest rounds first, and by how many per cent the others are longer, on the mean of all
// plans of several stages. Those that search for orders do it by the simulation itself.

#include <algorithm>
#include <array>
#include <benchmark/benchmark.h>
#include <iterator>

#include "bench/plan/published_models.h"
#include "core/random.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/search_plan.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "simulate/step_player.h"
#include "studies/methods/round_orders.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kSwaps = 300;
constexpr int kRandomOrders = 10;

/// A step of a plan in any order of its rounds, which are numbered from the costliest.
class OrderedStep {
 public:
  OrderedStep(const PlanningProblem& problem, const config::Plan& plan, std::size_t batch)
      : batch_{problem.batches[batch]},
        costs_(costs_on(problem, plan)),
        pipeline_(schedule::pipeline_of(plan)),
        dealer_(plan, pipeline_, costs_),
        dealt_(dealer_.plan(batch_[0])),
        ordered_(dealt_),
        options_{.samples = {.kind = simulate::SampleSource::Kind::kBatches,
                             .batches = &batch_,
                             .deals = {&ordered_}}},
        player_(plan, costs_, problem.cluster, options_) {
    for (const schedule::PackedBins& own : dealt_.microbatches)
      rounds_ = std::max(rounds_, own.bins());
  }
  OrderedStep(const OrderedStep&) = delete;
  OrderedStep& operator=(const OrderedStep&) = delete;

  [[nodiscard]] std::int64_t rounds() const { return rounds_; }

  [[nodiscard]] studies::RoundOrder by_places() const {
    studies::RoundOrder order = studies::natural_order(rounds_);
    for (std::int64_t nth = 0; nth < rounds_; ++nth)
      order[schedule::place_of_round(nth, rounds_)] = nth;
    return order;
  }

  /// The orders of docs/theory/planning.md, "Order of rounds"; small_rounds_out goes
  /// by the whole cost.
  [[nodiscard]] std::vector<studies::RoundOrder> starts(std::int64_t stages) {
    std::vector<double> encoder(static_cast<std::size_t>(rounds_));
    std::vector<double> backbone(encoder.size());
    for (const schedule::PackedBins& own : dealt_.microbatches)
      for (std::int64_t nth = 0; nth < rounds_; ++nth) {
        const std::int64_t place = schedule::place_of_round(nth, rounds_);
        if (place >= own.bins()) continue;
        for (const std::int32_t sample : own.bin(place)) {
          const schedule::SampleLoad load = dealer_.load_of(batch_[0][sample]);
          encoder[nth] += static_cast<double>(load.chains[0].time.count);
          backbone[nth] += static_cast<double>(load.chains[1].time.count);
        }
      }
    return studies::starting_orders(encoder, backbone, stages);
  }

  [[nodiscard]] std::int64_t time(const studies::RoundOrder& order) {
    for (std::size_t replica = 0; replica < dealt_.microbatches.size(); ++replica) {
      const schedule::PackedBins& own = dealt_.microbatches[replica];
      schedule::PackedBins& to = ordered_.microbatches[replica] = {.first = {0}, .items = {}};
      for (const std::int64_t nth : order) {
        const std::int64_t place = schedule::place_of_round(nth, rounds_);
        if (place >= own.bins()) continue;
        const std::span<const std::int32_t> bin = own.bin(place);
        to.items.insert(to.items.end(), bin.begin(), bin.end());
        to.first.push_back(static_cast<std::int32_t>(to.items.size()));
      }
    }
    simulate::RunAhead::Left left;
    return player_.time(0, /*disturbed=*/false, left).times.makespan.count;
  }

 private:
  std::vector<std::vector<simulate::SampleSize>> batch_;  // one
  cost::LayerStageCosts costs_;
  schedule::Pipeline pipeline_;
  simulate::StepDealer dealer_;
  schedule::StepPlan dealt_;
  schedule::StepPlan ordered_;
  simulate::SimulationOptions options_;
  simulate::StepPlayer player_;
  std::int64_t rounds_ = 0;
};

/// Orders that are compared, the first one the base.
enum Order { kCostliestFirst, kBackboneFirst, kJohnson, kSmallOut, kRandom, kPlaces, kSwapped };
constexpr const char* kNames[] = {
    "costliest_first_ms", "backbone_first", "johnson", "small_out", "random", "places", "swapped"};
using OrderTimes = std::array<double, std::size(kNames)>;

void add_times(OrderedStep& step, std::int64_t stages, OrderTimes& times) {
  const std::vector<studies::RoundOrder> starts = step.starts(stages);
  for (std::size_t i = 0; i < 4; ++i)  // of one round there is one
    times[i] += double(step.time(starts[std::min(i, starts.size() - 1)]));
  studies::RoundOrder order = step.by_places();
  const std::int64_t placed = step.time(order);
  times[kPlaces] += double(placed);
  times[kSwapped] += double(
      studies::swap_rounds(order, placed, kSwaps, /*seed=*/0,
                           [&](const studies::RoundOrder& other) { return step.time(other); }));
  RandomStream draws(0, "orders");
  for (int i = 0; i < kRandomOrders; ++i) {
    for (std::size_t last = order.size(); last > 1; --last)
      std::swap(order[last - 1], order[draws.below(last)]);
    times[kRandom] += double(step.time(order)) / kRandomOrders;
  }
}

/// Stages that a microbatch goes through with waits: of colocated encoders there are none.
std::int64_t stages_of(const PlanChoice& choice) {
  std::int64_t encoder = 0;
  for (const std::optional<ChainChoice>& each : choice.encoders)
    if (each && !each->is_colocated()) encoder = std::max(encoder, each->mesh.pp);
  return encoder + choice.backbone.mesh.pp;
}

enum class Space { kInline, kSeparate, kAll };

PlanningProblem make_problem(const char* model, std::int64_t devices, std::int64_t samples,
                             Space space) {
  PlanningProblem problem{.model = config::parse_graph_of_model(model, "bench"),
                          .cluster = config::read_cluster(TRIB_CLUSTER),
                          .devices = devices,
                          .batches = {}};
  for (std::uint64_t batch = 0; batch < 4; ++batch)
    problem.batches.push_back(simulate::draw_mixture(0, batch, samples));
  if (space == Space::kSeparate) problem.space.placements = {config::Placement::kSeparate};
  if (space == Space::kInline) {
    problem.space.placements = {config::Placement::kInline};
    problem.space.max_replicas = 4;  // else hardly any plan has a pipeline
  }
  return problem;
}

void compare_orders(benchmark::State& state, const char* model, Space space) {
  const PlanningProblem problem = make_problem(model, state.range(0), state.range(1), space);
  OrderTimes sums{};
  double max = -100;
  int plans = 0;
  for (auto _ : state) {
    for (const FoundPlan& found : search_plan(problem).plans) {
      const std::int64_t stages = stages_of(found.choice);
      if (stages < 2) continue;
      OrderTimes times{};
      for (std::size_t batch = 0; batch < problem.batches.size(); ++batch) {
        OrderedStep step(problem, found.plan, batch);
        add_times(step, stages, times);
      }
      sums[0] += times[0] / 1e6 / double(problem.batches.size());
      for (std::size_t i = 1; i < times.size(); ++i) sums[i] += 100 * (times[i] / times[0] - 1);
      max = std::max(max, 100 * (times[kPlaces] / times[0] - 1));
      ++plans;
    }
  }
  state.counters["plans"] = plans;
  if (plans == 0) return;
  for (std::size_t i = 0; i < sums.size(); ++i) state.counters[kNames[i]] = sums[i] / plans;
  state.counters["places_max"] = max;
}

#define TRIB_SIZES               \
  ->Args({16, 64})               \
      ->Args({32, 128})          \
      ->Args({32, 256})          \
      ->Args({64, 256})          \
      ->Args({64, 512})          \
      ->Iterations(1)            \
      ->Unit(benchmark::kSecond) \
      ->UseRealTime()
BENCHMARK_CAPTURE(compare_orders, vl7_all, kVl7, Space::kAll) TRIB_SIZES;
BENCHMARK_CAPTURE(compare_orders, vl7_separate, kVl7, Space::kSeparate) TRIB_SIZES;
BENCHMARK_CAPTURE(compare_orders, vl7_inline, kVl7, Space::kInline) TRIB_SIZES;
BENCHMARK_CAPTURE(compare_orders, vl72_all, kVl72, Space::kAll) TRIB_SIZES;
BENCHMARK_CAPTURE(compare_orders, vl72_separate, kVl72, Space::kSeparate) TRIB_SIZES;
BENCHMARK_CAPTURE(compare_orders, vl72_inline, kVl72, Space::kInline) TRIB_SIZES;

}  // namespace
}  // namespace tributary::plan
