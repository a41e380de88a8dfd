#include "simulate/simai/workload_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "cost/stages/rank_groups.h"
#include "simulate/simai/workload_text.h"

namespace tributary::simulate {
namespace {

constexpr std::string_view kFirstStageRow = "embedding_layer";

void require_possible(double ns, const std::string& path) {
  TRIB_REQUIRE(ns >= 0 && ns <= static_cast<double>(kMaxWorkloadTime),
               .what = "simulate: collectives of a workload take too long", .where = path,
               .found = ns < 0 ? "more than 2^63 ns" : str(ns, " ns"),
               .expected = str("at most ", kMaxWorkloadTime, " ns"),
               .fix = "look at its bytes and process times, and at the links of the cluster");
}

/// Times of rows on the ranks of one stage.
class RowTimes {
 public:
  RowTimes(const std::string& path, const config::Cluster& cluster, const cost::RankGroups& groups)
      : path_(path), cluster_(cluster), groups_(groups) {}

  /// Time of a pass's collective and the delay after it; at most twice the limit of a workload.
  [[nodiscard]] Nanoseconds collective(const WorkloadRow& row, const WorkloadPass& pass) {
    if (!pass.collective || pass.collective->bytes.count == 0) return {};
    const cost::CommunicationGroup& group = group_of(pass.collective->group);
    if (group.ranks == 1) return {};
    const auto& [op, who, bytes] = *pass.collective;
    const auto [found, is_new] = known_.try_emplace({op, who, bytes});
    if (is_new) {
      found->second = cost::collective_cost(cluster_, op, group, bytes).time;
      require_possible(static_cast<double>(found->second.count), path_);
    }
    return found->second + row.process;
  }
  /// Collectives of forward and input gradient, during which the device waits.
  [[nodiscard]] Nanoseconds exposed(const WorkloadRow& row) {
    return collective(row, row.forward) + collective(row, row.input_gradient);
  }
  [[nodiscard]] static Nanoseconds compute(const WorkloadRow& row) {
    return row.forward.compute + row.input_gradient.compute + row.weight_gradient.compute;
  }

 private:
  [[nodiscard]] const cost::CommunicationGroup& group_of(WorkloadGroup group) const {
    switch (group) {
      case WorkloadGroup::kTensor:
        return groups_.tp;
      case WorkloadGroup::kData:
        return groups_.shard;
      case WorkloadGroup::kExpert:
        return groups_.expert;
      case WorkloadGroup::kExpertData:
        return groups_.expert_shard;
    }
    TRIB_RAISE(Fault::kBug, .what = "simulate: no such group of a workload");
  }

  const std::string& path_;
  const config::Cluster& cluster_;
  const cost::RankGroups& groups_;
  std::map<std::tuple<config::CollectiveOp, WorkloadGroup, Bytes>, Nanoseconds> known_;
};

/// The costs of the chunks of one stage.
class StageTables {
 public:
  StageTables(const SimaiWorkload& workload, const config::Cluster& cluster,
              const cost::RankGroups& groups, bool is_first)
      : workload_(workload), times_(workload.path, cluster, groups), is_first_(is_first) {
    std::vector<double> row_times;
    for (std::int64_t row = 0; row < workload.microbatch_rows; ++row) {
      const WorkloadRow& of = row_at(0, row);
      const bool counts = of.name != kFirstStageRow;  // it does not move the cut of the first stage
      row_times.push_back(
          counts ? static_cast<double>((times_.compute(of) + times_.exposed(of)).count) : 0);
    }
    cuts_ = cut_evenly(row_times, workload.chunks);
  }

  [[nodiscard]] cost::StageCost cost(std::int64_t microbatch, std::int64_t chunk) {
    cost::StageCost cost{.boundary = workload_.message};
    for (std::int64_t row = cuts_[chunk]; row < cuts_[chunk + 1]; ++row) {
      const WorkloadRow& of = row_at(microbatch, row);
      if (!is_here(of)) continue;
      cost.forward += of.forward.compute;
      cost.input_gradient += of.input_gradient.compute;
      cost.weight_gradient += of.weight_gradient.compute;
      add(cost.forward_exposed, times_.collective(of, of.forward));
      add(cost.gradient_exposed, times_.collective(of, of.input_gradient));
    }
    return cost;
  }

  /// Work once a step: collectives of weight gradients, and, with the first chunk, whose backward
  /// is the last, the rows outside of microbatches.
  [[nodiscard]] cost::StageState state(std::int64_t chunk) {
    cost::StageState state;
    for (std::int64_t microbatch = 0; microbatch < workload_.microbatches; ++microbatch)
      for (std::int64_t row = cuts_[chunk]; row < cuts_[chunk + 1]; ++row)
        if (const WorkloadRow& of = row_at(microbatch, row); is_here(of))
          add(state.reduction, times_.collective(of, of.weight_gradient));
    if (chunk > 0) return state;
    for (std::int64_t row = 0; row < std::ssize(workload_.rows); ++row) {
      if (row == workload_.first_row) row = workload_.end_row();
      if (row == std::ssize(workload_.rows)) break;
      const WorkloadRow& of = workload_.rows[row];
      add(state.reduction, times_.collective(of, of.weight_gradient));
      add(state.optimizer_step, times_.compute(of) + times_.exposed(of));
    }
    return state;
  }

 private:
  void add(Nanoseconds& sum, Nanoseconds time) const {
    sum += time;
    require_possible(static_cast<double>(sum.count), workload_.path);
  }
  [[nodiscard]] const WorkloadRow& row_at(std::int64_t microbatch, std::int64_t row) const {
    return workload_.rows[workload_.first_row + microbatch * workload_.microbatch_rows + row];
  }
  [[nodiscard]] bool is_here(const WorkloadRow& row) const {
    return is_first_ || row.name != kFirstStageRow;
  }

  const SimaiWorkload& workload_;
  RowTimes times_;
  bool is_first_;
  std::vector<std::int64_t> cuts_;  // [chunks + 1] rows of a microbatch
};

/// Numbers microbatches; one that equals the one before it gets its number.
std::vector<int> number_microbatches(const SimaiWorkload& workload) {
  std::vector<int> numbers{0};
  const auto begin = workload.rows.begin() + workload.first_row;
  for (std::int64_t microbatch = 1; microbatch < workload.microbatches; ++microbatch) {
    const auto here = begin + microbatch * workload.microbatch_rows;
    const bool is_same =
        std::equal(here, here + workload.microbatch_rows, here - workload.microbatch_rows);
    numbers.push_back(numbers.back() + (is_same ? 0 : 1));
  }
  return numbers;
}

/// Checks the time of each device over a step.
void check_times(const SimaiWorkload& workload, const std::vector<int>& microbatches,
                 const std::vector<std::vector<cost::StageCost>>& costs,
                 const std::vector<cost::StageState>& states) {
  const auto in_ns = [](Nanoseconds time) { return static_cast<double>(time.count); };
  for (std::int64_t stage = 0; stage < workload.stages; ++stage) {
    double all = 0;
    for (std::size_t at = stage; at < states.size(); at += workload.stages) {
      all += in_ns(states[at].reduction) + in_ns(states[at].optimizer_step);
      for (const int number : microbatches)
        all += in_ns(costs[number][at].forward_exposed) + in_ns(costs[number][at].gradient_exposed);
    }
    require_possible(all, workload.path);
  }
}

}  // namespace

std::vector<std::int64_t> cut_evenly(const std::vector<double>& values, std::int64_t parts) {
  const std::int64_t count = std::ssize(values);
  TRIB_CHECK(parts >= 1 && count >= parts, .what = "simulate: fewer values than parts",
             .found = str(count), .expected = str("at least ", parts));
  std::vector<double> sums(values.size() + 1);
  std::partial_sum(values.begin(), values.end(), sums.begin() + 1);
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t part = 1; part < parts; ++part) {
    const double goal = sums.back() * static_cast<double>(part) / static_cast<double>(parts);
    std::int64_t end = std::lower_bound(sums.begin(), sums.end(), goal) - sums.begin();
    if (end > 0 && goal - sums[end - 1] <= sums[end] - goal) --end;
    cuts.push_back(std::clamp(end, cuts.back() + 1, count - (parts - part)));
  }
  cuts.push_back(count);
  return cuts;
}

config::Plan plan_of(const SimaiWorkload& workload) {
  config::ModulePlan module{.name = std::string(config::kBackboneModule)};
  module.ranks.resize(static_cast<std::size_t>(workload.ranks));
  std::iota(module.ranks.begin(), module.ranks.end(), 0);
  module.mesh = {.pp = workload.stages,
                 .dp_shard = workload.data(),
                 .tp = workload.tensor,
                 .ep = workload.expert};
  for (std::int64_t stage = 0; stage < workload.stages * workload.chunks; ++stage)
    module.stages.push_back({.first = stage, .layers = 1});
  if (workload.chunks > 1) module.schedule = config::PipelineOrder::kInterleaved;
  config::Plan plan;
  plan.modules.push_back(std::move(module));
  plan.batch.microbatches = workload.microbatches;
  plan.batch.global_samples = workload.microbatches * workload.data();
  return plan;
}

WorkloadCosts::WorkloadCosts(const SimaiWorkload& workload, const config::Plan& plan,
                             const config::Cluster& cluster) {
  TRIB_REQUIRE(workload.ranks <= cluster.devices,
               .what = "simulate: workload has more ranks than the cluster has devices",
               .where = str(workload.path, ":1"), .found = str("all_gpus ", workload.ranks),
               .expected = str("at most ", cluster.devices));
  auto tables = std::make_shared<Tables>();
  tables->microbatch = number_microbatches(workload);
  tables->ranks = {.replicas = workload.data(), .of_lane = workload.tensor};
  const auto virtual_stages = static_cast<std::size_t>(workload.stages * workload.chunks);
  const auto kinds = static_cast<std::size_t>(tables->microbatch.back() + 1);
  tables->costs.assign(kinds, std::vector<cost::StageCost>(virtual_stages));
  tables->states.resize(virtual_stages);
  const std::vector<cost::RankGroups> groups = cost::groups_of(plan.modules.front(), cluster);
  for (std::int64_t stage = 0; stage < workload.stages; ++stage) {
    // This stage has the links of the stage before it, and not the rows of the first one.
    const bool is_as_before = stage > 1 && groups[stage] == groups[stage - 1];
    std::optional<StageTables> here;
    if (!is_as_before) here.emplace(workload, cluster, groups[stage], stage == 0);
    for (std::int64_t chunk = 0; chunk < workload.chunks; ++chunk) {
      const std::int64_t at = chunk * workload.stages + stage;
      tables->states[at] = here ? here->state(chunk) : tables->states[at - 1];
      for (std::int64_t i = 0; i < workload.microbatches; ++i) {
        std::vector<cost::StageCost>& costs = tables->costs[tables->microbatch[i]];
        const bool is_new = i == 0 || tables->microbatch[i] != tables->microbatch[i - 1];
        if (is_new) costs[at] = here ? here->cost(i, chunk) : costs[at - 1];
      }
    }
  }
  check_times(workload, tables->microbatch, tables->costs, tables->states);
  tables_ = std::move(tables);
}

cost::StageCost WorkloadCosts::cost(int /*module*/, int virtual_stage,
                                    const cost::MicrobatchShape& shape) const {
  return tables_->costs[static_cast<std::size_t>(shape.backbone.tokens)][virtual_stage];
}

cost::StageState WorkloadCosts::state(int /*module*/, int virtual_stage) const {
  return tables_->states[virtual_stage];
}

cost::ModuleRanks WorkloadCosts::ranks(int /*module*/) const { return tables_->ranks; }

StepShapes WorkloadCosts::shapes() const {
  std::vector<cost::MicrobatchShape> microbatches;
  for (const int number : tables_->microbatch)
    microbatches.push_back({.backbone = {.tokens = static_cast<double>(number)}, .encoder = {}});
  return {{std::move(microbatches)}};
}

}  // namespace tributary::simulate
