#include "plan/search/explain_plan.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/error.h"
#include "plan/judge/batch_deals.h"
#include "plan/judge/simulate_on.h"
#include "simulate/trace_of.h"

namespace tributary::plan {
namespace {

/// Notes what ranks do and why they idle. On a rank with two lanes both causes count in proportion.
void add_use_of_time(const simulate::Simulation& simulation, PlanExplanation& explanation) {
  const simulate::RanksAccount ranks =
      simulate::account_ranks(simulation.program.map(), simulation.accounts, simulation.lane_ranks);
  explanation.busy = ranks.share(simulate::TimeClass::kBusy);
  explanation.communication = ranks.share(simulate::TimeClass::kCommunication);
  const double idle = ranks.share(simulate::TimeClass::kIdle);
  const double causes = seconds_of(ranks.uses.total(simulate::TimeClass::kIdle));
  for (std::size_t use = 0; use < simulate::kTimeUses; ++use) {
    const auto each = static_cast<simulate::TimeUse>(use);
    if (simulate::class_of(each) == simulate::TimeClass::kIdle && ranks.uses[each].count > 0)
      explanation.idle.emplace_back(name_of(each), idle * seconds_of(ranks.uses[each]) / causes);
  }
  std::stable_sort(explanation.idle.begin(), explanation.idle.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

void add_memory(const PlanningProblem& problem, const simulate::Simulation& simulation,
                PlanExplanation& explanation) {
  std::size_t fullest = 0;
  for (std::size_t lane = 1; lane < simulation.memory.size(); ++lane)
    if (simulation.memory[lane].total() > simulation.memory[fullest].total()) fullest = lane;
  const simulate::LaneMemory& memory = simulation.memory[fullest];
  explanation.fullest = simulation.program.map().describe(static_cast<int>(fullest));
  explanation.peak = memory.total();
  explanation.available = problem.memory();
  explanation.memory = {{"activations", memory.activations}, {"parameters", memory.parameters},
                        {"gradients", memory.gradients},     {"optimizer", memory.optimizer},
                        {"gathered", memory.gathered},       {"buffers", memory.buffers},
                        {"features", memory.features}};
  if (memory.other.count > 0) explanation.memory.emplace_back("other_module", memory.other);
  std::stable_sort(explanation.memory.begin(), explanation.memory.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

/// Widens a level's links to twice the rate; quicken() halves their latency.
void widen(config::LinkLevel& level) {
  level.bytes_per_s *= 2;
  level.seconds_per_byte /= 2;
  level.seconds_per_byte_pair /= 2;
  level.small_all_reduce.clear();
}
void quicken(config::LinkLevel& level) {
  for (double* time : {&level.message_start_s, &level.start_s, &level.hop_s,
                       &level.low_latency_start_s, &level.low_latency_hop_s})
    *time /= 2;
  level.small_all_reduce.clear();
}

/// Makes all samples as large as the mean one.
void even_out(PlanningProblem& problem) {
  for (std::vector<simulate::SampleSize>& batch : problem.batches) {
    simulate::SampleSize sum{.tokens = 0};
    for (const simulate::SampleSize& sample : batch) {
      sum.tokens += sample.tokens;
      sum.patches += sample.patches;
      sum.items += sample.items;
      sum.frames += sample.frames;
      sum.clips += sample.clips;
    }
    const std::int64_t count = std::ssize(batch);
    const simulate::SampleSize mean{.tokens = std::max<std::int64_t>(1, sum.tokens / count),
                                    .patches = sum.patches / count,
                                    .items = (sum.items + count - 1) / count,
                                    .frames = sum.frames / count,
                                    .clips = (sum.clips + count - 1) / count};
    batch.assign(batch.size(), mean);
  }
}

class Explaining {
 public:
  Explaining(const PlanningProblem& problem, const FoundPlan& found, std::int64_t batches)
      : problem_(problem),
        found_(found),
        batches_(std::min<std::int64_t>(batches, std::ssize(problem.batches))) {}

  PlanExplanation run(bool is_searched) {
    const simulate::Simulation simulation = simulate_on(problem_, found_.plan, batches_);
    explanation_.step = simulation.distribution.mean;
    for (const auto& [kind, time] : simulate::trace_of(simulation, "", "").summary.critical_path)
      explanation_.critical_path.emplace_back(kind, time);
    std::stable_sort(explanation_.critical_path.begin(), explanation_.critical_path.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    add_use_of_time(simulation, explanation_);
    add_memory(problem_, simulation, explanation_);
    if (!problem_.measured) {  // measured times do not predict other links or devices
      try_links();
      try_device();
    }
    try_samples();
    try_microbatch();
    if (is_searched)
      try_memory();
    else
      try_search("the default search: ", problem_);
    std::stable_sort(explanation_.remedies.begin(), explanation_.remedies.end(),
                     [](const Remedy& a, const Remedy& b) { return a.gain > b.gain; });
    return std::move(explanation_);
  }

 private:
  void note(const std::string& change, Nanoseconds step) {
    explanation_.remedies.push_back(
        {change, step, 1 - seconds_of(step) / seconds_of(explanation_.step)});
  }
  void try_change(const std::string& change, const std::function<void(PlanningProblem&)>& make) {
    PlanningProblem changed = problem_;
    make(changed);
    note(change, simulate_on(changed, found_.plan, batches_).distribution.mean);
  }

  void try_links() {
    for (std::size_t i = 0; i < problem_.cluster.levels.size(); ++i) {
      const std::string& name = problem_.cluster.levels[i].name;
      try_change(str("links of level ", name, " with twice the rate"),
                 [i](PlanningProblem& changed) { widen(changed.cluster.levels[i]); });
      try_change(str("links of level ", name, " with half the latency"),
                 [i](PlanningProblem& changed) { quicken(changed.cluster.levels[i]); });
    }
  }
  void try_device() {
    try_change("devices with twice the arithmetic",
               [](PlanningProblem& changed) { changed.cluster.device.matrix_flops_per_s *= 2; });
    try_change("devices with twice the memory rate",
               [](PlanningProblem& changed) { changed.cluster.device.memory_bytes_per_s *= 2; });
    try_change("half the host time of a kernel",
               [](PlanningProblem& changed) { changed.cluster.device.launch_s /= 2; });
  }
  /// Keeps the number of microbatches: some hold one sample more, which may need more room.
  void try_samples() {
    if (has_equal_samples(problem_)) return;
    PlanningProblem even = problem_;
    even_out(even);
    config::Plan plan = found_.plan;
    plan.batch.capacity_tokens =
        std::max(plan.batch.capacity_tokens,
                 BatchDeals(even).capacity(plan, static_cast<std::size_t>(batches_)));
    note("samples that are all of the mean size",
         simulate_on(even, plan, batches_).distribution.mean);
  }

  /// Adds one microbatch, or as many as the order needs at once.
  void try_microbatch() {
    const PlanChoice& choice = found_.choice;
    const std::int64_t more =
        choice.schedule == config::PipelineOrder::kInterleaved ? choice.backbone.mesh.pp : 1;
    config::Plan plan = found_.plan;
    plan.batch.microbatches += more;
    if (plan.batch.microbatches * choice.backbone.replicas() > problem_.global_samples()) return;
    plan.batch.capacity_tokens =
        BatchDeals(problem_).capacity(plan, static_cast<std::size_t>(batches_));
    const simulate::Simulation simulation = simulate_on(problem_, plan, batches_);
    if (simulation.out_of_memory) return;
    note(str(more, more == 1 ? " more microbatch" : " more microbatches"),
         simulation.distribution.mean);
  }

  void try_memory() {
    PlanningProblem larger = problem_;
    larger.cluster.device.memory.count += larger.memory().count / 4;
    try_search("a quarter more memory, with ", larger);
  }
  void try_search(const std::string& change, const PlanningProblem& problem) {
    const PlanSearch search =
        search_plan(problem, {.candidates = {.keep = 50}, .finalists = 3, .moves = 0});
    if (search.plans.empty()) return;
    const FoundPlan& best = search.plans.front();
    note(change + describe(problem, best.choice),
         simulate_on(problem, best.plan, batches_).distribution.mean);
  }

  const PlanningProblem& problem_;
  const FoundPlan& found_;
  std::int64_t batches_;
  PlanExplanation explanation_;
};

}  // namespace

PlanExplanation explain_plan(const PlanningProblem& problem, const FoundPlan& found,
                             std::int64_t batches, bool is_searched) {
  return Explaining(problem, found, batches).run(is_searched);
}

}  // namespace tributary::plan
