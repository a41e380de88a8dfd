#pragma once

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <tuple>

#include "plan/candidates/list_candidates.h"
#include "plan/judge/batch_deals.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/search_plan.h"

namespace tributary::plan {

/// All ways to cut `units` into `stages` stages of at least one.
inline std::vector<ChainCut> all_cuts(std::int64_t units, std::int64_t stages) {
  std::vector<ChainCut> cuts;
  ChainCut cut{0};
  const std::function<void()> extend = [&] {
    if (std::ssize(cut) == stages) {
      cut.push_back(units);
      cuts.push_back(cut);
      cut.pop_back();
      return;
    }
    for (std::int64_t next = cut.back() + 1; next < units; ++next) {
      cut.push_back(next);
      extend();
      cut.pop_back();
    }
  };
  extend();
  return cuts;
}

/// Every mesh of at most so many devices with whole copies, all shards, or shards by two.
inline std::vector<config::MeshShape> all_meshes(const PlanningProblem& problem,
                                                 const config::ModuleNode& node,
                                                 std::int64_t devices) {
  std::vector<config::MeshShape> meshes;
  for (std::int64_t tp = 1; tp <= std::min(devices, problem.space.max_tp); tp *= 2)
    for (std::int64_t pp = 1; tp * pp <= devices; ++pp)
      for (std::int64_t dp = 1; tp * pp * dp <= devices; ++dp)
        for (std::int64_t shard = 1; shard <= dp; ++shard) {
          const config::MeshShape mesh{
              .pp = pp, .dp_replicate = dp / shard, .dp_shard = shard, .tp = tp};
          if (dp % shard == 0 && can_cut(problem, node, mesh) &&
              missing_degree(problem, node, mesh, 0).empty())
            meshes.push_back(mesh);
        }
  return meshes;
}

/// The least mean step of all plans of the space, every cut of the layers included.
class BruteForce {
 public:
  /// A plan, whether or not it fits.
  struct Worth {
    Bytes peak;
    Nanoseconds mean;
    std::string plan;
  };

  explicit BruteForce(const PlanningProblem& problem) : problem_(problem), deals_(problem) {}

  Nanoseconds run() {
    const config::ModuleNode& backbone = *problem_.model.find("backbone");
    for (const config::MeshShape& mesh : all_meshes(problem_, backbone, problem_.devices)) {
      const std::int64_t replicas = mesh.dp_replicate * mesh.dp_shard;
      for (const std::int64_t rounds : microbatch_numbers(problem_, mesh.pp, replicas))
        for (const config::PipelineOrder order : problem_.space.schedules)
          for (const config::RecomputePlan level : problem_.space.recompute) {
            PlanChoice choice{.schedule = order, .microbatches = rounds};
            choice.backbone = {.mesh = mesh, .recompute = level};
            choice.chunks = order == config::PipelineOrder::kInterleaved ? 2 : 1;
            if (choice.chunks == 2 && (mesh.pp == 1 || rounds % mesh.pp != 0)) continue;
            place_encoders(choice);
          }
    }
    return best_;
  }
  /// The plans of which none that needs no more is faster, by what they need, whatever fits.
  std::vector<Worth> run_front() {
    keeps_all_ = true;
    (void)run();
    std::sort(worths_.begin(), worths_.end(), [](const Worth& a, const Worth& b) {
      return std::tie(a.peak, a.mean) < std::tie(b.peak, b.mean);
    });
    std::vector<Worth> front;
    for (const Worth& each : worths_)
      if (front.empty() || each.mean < front.back().mean) front.push_back(each);
    return front;
  }
  [[nodiscard]] const std::string& plan() const { return plan_; }
  [[nodiscard]] std::int64_t plans() const { return plans_; }
  [[nodiscard]] std::int64_t colocated() const { return colocated_; }  // of them

 private:
  void place_encoders(PlanChoice choice) {
    choice.encoders.resize(encoders_of(problem_).size());
    const config::ModuleNode& backbone = *problem_.model.find("backbone");
    const std::int64_t units = units_of(backbone);
    const std::int64_t stages = choice.backbone.mesh.pp * choice.chunks;
    if (stages > units) return;
    const std::vector<ChainCut> cuts = all_cuts(units, stages);
    place_apart(choice, 0, {}, cuts);
    for (std::size_t encoder = 0; encoder < choice.encoders.size(); ++encoder)
      place_colocated(choice, encoder, cuts);
  }

  /// Encoders from `next` on inline or on ranks of their own; those before it are placed, and cut.
  void place_apart(PlanChoice choice, std::size_t next, const std::vector<ChainCut>& own,
                   const std::vector<ChainCut>& cuts) {
    if (next == choice.encoders.size()) {
      if (can_cut_inside(choice)) run_plans(choice, own, cuts);
      return;
    }
    for (const config::RecomputePlan level : levels_inside(next)) {
      choice.inside.set(next, level);
      place_apart(choice, next + 1, own, cuts);
    }
    choice.inside.set(next, config::RecomputePlan::kNone);
    std::int64_t left = problem_.devices - choice.backbone.devices();
    for (const std::optional<ChainChoice>& encoder : choice.encoders)
      if (encoder) left -= encoder->devices();
    const config::ModuleNode& node = *encoders_of(problem_)[next];
    for (const config::MeshShape& mesh : all_meshes(problem_, node, left))
      for (const config::RecomputePlan level : problem_.space.recompute) {
        if (choice.microbatches * mesh.dp_replicate * mesh.dp_shard > problem_.global_samples())
          continue;
        choice.encoders[next] = ChainChoice{.mesh = mesh, .recompute = level};
        if (!is_aligned(problem_, choice)) continue;
        for (const ChainCut& cut : all_cuts(units_of(node), mesh.pp)) {
          std::vector<ChainCut> with = own;
          with.push_back(cut);
          place_apart(choice, next + 1, with, cuts);
        }
      }
  }

  void run_plans(const PlanChoice& choice, const std::vector<ChainCut>& encoders,
                 const std::vector<ChainCut>& cuts) {
    for (const ChainCut& cut : cuts) {
      std::vector<ChainCut> all = encoders;
      all.push_back(cut);
      run_plan(choice, all);
    }
  }

  /// The encoder on the ranks of the backbone, in any number of passes, the others inline.
  void place_colocated(PlanChoice choice, std::size_t encoder, const std::vector<ChainCut>& cuts) {
    const config::ModuleNode& node = *encoders_of(problem_)[encoder];
    const std::vector<config::Placement>& placements = problem_.space.placements;
    const bool is_searched = std::find(placements.begin(), placements.end(),
                                       config::Placement::kColocated) != placements.end();
    const bool splits = choice.schedule == config::PipelineOrder::kZbH1;
    if (!is_searched || (splits && !problem_.is_frozen(node.name))) return;
    for (const config::MeshShape& mesh : all_meshes(problem_, node, choice.backbone.devices())) {
      if (mesh.pp != 1 || mesh.world() != choice.backbone.devices()) continue;
      for (const config::RecomputePlan level : problem_.space.recompute)
        for (std::int64_t passes = 1; passes <= choice.microbatches; ++passes) {
          choice.encoders[encoder] = ChainChoice{mesh, level, passes};
          if (can_cut_inside(choice)) run_colocated(choice, 0, {{0, units_of(node)}}, cuts);
        }
    }
  }
  /// Encoders from `next` on that are inside at every level of recompute.
  void run_colocated(PlanChoice choice, std::size_t next, const std::vector<ChainCut>& own,
                     const std::vector<ChainCut>& cuts) {
    if (next == choice.encoders.size()) {
      run_plans(choice, own, cuts);
      colocated_ += std::ssize(cuts);
    } else if (choice.encoders[next]) {
      run_colocated(choice, next + 1, own, cuts);
    } else {
      for (const config::RecomputePlan level : levels_inside(next)) {
        choice.inside.set(next, level);
        run_colocated(choice, next + 1, own, cuts);
      }
    }
  }

  /// A frozen encoder keeps nothing that it could compute again.
  [[nodiscard]] std::vector<config::RecomputePlan> levels_inside(std::size_t encoder) const {
    if (problem_.is_frozen(encoders_of(problem_)[encoder]->name))
      return {problem_.space.recompute.front()};
    return problem_.space.recompute;
  }

  /// What is inline is cut as the backbone.
  [[nodiscard]] bool can_cut_inside(const PlanChoice& choice) const {
    const std::vector<const config::ModuleNode*> encoders = encoders_of(problem_);
    for (std::size_t i = 0; i < encoders.size(); ++i) {
      config::MeshShape mesh = choice.backbone.mesh;
      mesh.pp = 1;
      if (!choice.encoders[i] && !can_cut(problem_, *encoders[i], mesh)) return false;
    }
    return true;
  }

  void run_plan(const PlanChoice& choice, const std::vector<ChainCut>& cuts) {
    if (problem_.measured && choice.devices() != problem_.devices) return;
    ++plans_;
    config::Plan plan = to_plan(problem_, choice, cuts);
    plan.batch.capacity_tokens = deals_.capacity(plan, problem_.batches.size());
    const simulate::Simulation simulation =
        simulate_on(problem_, plan, std::ssize(problem_.batches));
    if (keeps_all_)
      worths_.push_back({peak_of(plan), simulation.distribution.mean, describe(problem_, choice)});
    if (simulation.out_of_memory || simulation.distribution.mean >= best_) return;
    best_ = simulation.distribution.mean;
    plan_ = describe(problem_, choice);
  }

  [[nodiscard]] Bytes peak_of(const config::Plan& plan) const {
    return simulate_on(problem_, plan, 0, problem_.batches.size()).fullest.memory.total();
  }

  const PlanningProblem& problem_;
  BatchDeals deals_;
  bool keeps_all_ = false;
  Nanoseconds best_{std::numeric_limits<std::int64_t>::max()};
  std::string plan_;
  std::vector<Worth> worths_;
  std::int64_t plans_ = 0;
  std::int64_t colocated_ = 0;
};

/// Expects that no plan is below the bound of the list. Returns bound / best; none where there is
/// no plan.
inline std::optional<double> hold_bound(const PlanningProblem& problem) {
  BruteForce brute(problem);
  const Nanoseconds best = brute.run();
  if (brute.plan().empty()) return std::nullopt;
  ChainTables tables(problem);
  const Nanoseconds bound = list_candidates(problem, tables).lower_bound;
  EXPECT_LE(bound, best) << brute.plan();
  return static_cast<double>(bound.count) / static_cast<double>(best.count);
}

/// Expects that a search's bound is not above the best of all plans, and its answer neither below
/// it nor more than a tenth above. Returns answer / best.
inline double hold_beside(const PlanningProblem& problem, const PlanSearch& search,
                          Nanoseconds best) {
  EXPECT_LE(search.certificate.lower_bound, best);
  ChainTables tables(problem);  // the bound that no plan's step has been compared with
  EXPECT_LE(list_candidates(problem, tables).lower_bound, best);
  // With the capacity of the plans that brute force runs: what it hides of gathers depends on it.
  config::Plan found = search.plans.front().plan;
  const auto batches = std::ssize(problem.batches);
  found.batch.capacity_tokens =
      BatchDeals(problem).capacity(found, static_cast<std::size_t>(batches));
  const Nanoseconds value = simulate_on(problem, found, batches).distribution.mean;
  EXPECT_GE(value, best) << "a plan outside of the space";
  const double ratio = static_cast<double>(value.count) / static_cast<double>(best.count);
  EXPECT_LE(ratio, 1.10) << "search: " << describe(problem, search.plans.front().choice) << ", "
                         << problem.devices << " devices";
  return ratio;
}

}  // namespace tributary::plan
