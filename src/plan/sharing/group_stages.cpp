#include <algorithm>
#include <bit>
#include <tuple>

#include "plan/sharing/stage_list.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kNever = StageValues::kNever;

ModuleSet bit_of(std::size_t module) { return ModuleSet{1} << module; }

/// Dependencies between modules as bits, in the forms that the search needs.
class ModuleGraphBits {
 public:
  explicit ModuleGraphBits(const SharingProblem& problem)
      : ancestors_(ancestors_of(problem)), descendants_(ancestors_.size()) {
    for (std::size_t module = 0; module < ancestors_.size(); ++module) {
      for (ModuleSet rest = ancestors_[module]; rest != 0; rest &= rest - 1) {
        descendants_[std::countr_zero(rest)] |= bit_of(module);
      }
    }
    levels_commute_ = true;
    for (std::size_t a = 0; a < size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool is_apart = ((ancestors_[a] | descendants_[a]) & bit_of(b)) == 0;
        if (is_apart && (ancestors_[a] != ancestors_[b] || descendants_[a] != descendants_[b])) {
          levels_commute_ = false;
        }
      }
    }
  }

  [[nodiscard]] std::size_t size() const { return ancestors_.size(); }
  [[nodiscard]] ModuleSet all() const {
    return static_cast<ModuleSet>((std::uint64_t{1} << size()) - 1);
  }
  [[nodiscard]] const std::vector<ModuleSet>& ancestors() const { return ancestors_; }
  [[nodiscard]] ModuleSet descendants(std::size_t module) const { return descendants_[module]; }
  /// Whether independent modules have the same neighbours everywhere.
  [[nodiscard]] bool levels_commute() const { return levels_commute_; }

  /// Whether a set contains all predecessors of its modules.
  [[nodiscard]] bool is_ideal(ModuleSet set) const {
    for (ModuleSet rest = set; rest != 0; rest &= rest - 1) {
      if ((ancestors_[std::countr_zero(rest)] & ~set) != 0) return false;
    }
    return true;
  }
  /// The modules of a set that no other module of the set depends on.
  [[nodiscard]] ModuleSet last_of(ModuleSet set) const {
    ModuleSet last = 0;
    for (ModuleSet rest = set; rest != 0; rest &= rest - 1) {
      const int module = std::countr_zero(rest);
      if ((descendants_[module] & set) == 0) last |= bit_of(module);
    }
    return last;
  }
  /// The modules with the same neighbours as this one, itself included.
  [[nodiscard]] ModuleSet level_of(std::size_t module) const {
    ModuleSet level = 0;
    for (std::size_t other = 0; other < size(); ++other) {
      if (ancestors_[other] == ancestors_[module] && descendants_[other] == descendants_[module]) {
        level |= bit_of(other);
      }
    }
    return level;
  }

 private:
  std::vector<ModuleSet> ancestors_;
  std::vector<ModuleSet> descendants_;
  bool levels_commute_ = true;
};

/// The best way to run a set of modules first.
struct Prefix {
  std::int64_t time = kNever;
  int stages = 0;
  ModuleSet last = 0;  // the last stage

  [[nodiscard]] auto key() const { return std::tuple(time, stages, last); }
};

class Grouping {
 public:
  Grouping(const SharingProblem& problem, const ModuleGraphBits& graph, StageValues& values,
           std::int64_t upper_bound, std::int64_t evaluations)
      : problem_(problem),
        graph_(graph),
        values_(values),
        upper_bound_(upper_bound),
        evaluations_(evaluations),
        prefixes_(std::size_t{1} << graph.size()) {
    for (std::size_t module = graph.size(); module-- > 0;) {
      std::int64_t after = 0;
      for (std::size_t other = module + 1; other < graph.size(); ++other) {
        if (graph.descendants(module) & bit_of(other)) after = std::max(after, chain_from_[other]);
      }
      chain_from_[module] = after + values.options().min_time(static_cast<int>(module));
    }
  }

  /// Returns false when the budget ran out.
  bool run() {
    prefixes_[0].time = 0;
    for (ModuleSet set = 1; set <= graph_.all(); ++set) {
      if (!graph_.is_ideal(set)) continue;
      if (values_.evaluations() >= evaluations_) return false;
      visit(set);
    }
    return true;
  }

  /// The stages of the best staging; empty when none is as good as the upper bound.
  [[nodiscard]] StageList best() const {
    StageList list;
    if (prefixes_[graph_.all()].time == kNever) return list;
    for (ModuleSet set = graph_.all(); set != 0; set &= ~prefixes_[set].last) {
      list.stages.push_back(prefixes_[set].last);
    }
    std::reverse(list.stages.begin(), list.stages.end());
    list.time = prefixes_[graph_.all()].time;
    return list;
  }

 private:
  void visit(ModuleSet set) {
    const ModuleSet last = graph_.last_of(set);
    ModuleSet pivot = 0;  // a module that the last stage must contain
    if (graph_.levels_commute()) {
      pivot = bit_of(largest_of(last));
      const ModuleSet level = graph_.level_of(std::countr_zero(last));
      // A whole level has its pivot in its last stage: no prefix holds the pivot and lacks others.
      if (last != level && (last & bit_of(largest_of(level))) != 0) return;
    }
    const std::int64_t behind = bound_behind(set);
    std::vector<std::pair<std::int64_t, ModuleSet>> open = candidates(set, last, pivot, behind);
    std::sort(open.begin(), open.end());
    Prefix& best = prefixes_[set];
    for (const auto& [bound, stage] : open) {
      const std::int64_t limit = std::min(best.time, upper_bound_ - behind);
      if (bound > limit) break;
      const Prefix& before = prefixes_[set & ~stage];
      if (!values_.is_below(stage, limit - before.time + 1)) continue;
      const Prefix found = {before.time + values_.value(stage), before.stages + 1, stage};
      if (found.key() < best.key()) best = found;
    }
    if (best.time != kNever && best.time + behind > upper_bound_) best = Prefix();
  }

  [[nodiscard]] std::vector<std::pair<std::int64_t, ModuleSet>> candidates(ModuleSet set,
                                                                           ModuleSet last,
                                                                           ModuleSet pivot,
                                                                           std::int64_t behind) {
    std::vector<std::pair<std::int64_t, ModuleSet>> open;
    const ModuleSet free = last & ~pivot;
    for (ModuleSet part = free;; part = (part - 1) & free) {
      const ModuleSet stage = part | pivot;
      if (stage != 0 && prefixes_[set & ~stage].time != kNever) {
        const std::int64_t bound = prefixes_[set & ~stage].time + values_.lower_bound(stage);
        if (bound + behind <= upper_bound_) open.emplace_back(bound, stage);
      }
      if (part == 0) return open;
    }
  }

  /// Lower bound on the time of the modules that are left.
  [[nodiscard]] std::int64_t bound_behind(ModuleSet set) const {
    const std::int64_t room = problem_.devices * problem_.units;
    std::int64_t work = 0;
    std::int64_t longest = 0;
    for (ModuleSet rest = graph_.all() & ~set; rest != 0; rest &= rest - 1) {
      const int module = std::countr_zero(rest);
      work += values_.options().work(module);
      longest = std::max(longest, chain_from_[module]);
    }
    return std::max((work + room - 1) / room, longest);
  }

  [[nodiscard]] std::size_t largest_of(ModuleSet set) const {
    int largest = std::countr_zero(set);
    for (ModuleSet rest = set; rest != 0; rest &= rest - 1) {
      const int module = std::countr_zero(rest);
      if (values_.options().work(module) > values_.options().work(largest)) largest = module;
    }
    return static_cast<std::size_t>(largest);
  }

  const SharingProblem& problem_;
  const ModuleGraphBits& graph_;
  StageValues& values_;
  std::int64_t upper_bound_;
  std::int64_t evaluations_;
  std::vector<Prefix> prefixes_;  // [sets of modules]
  std::int64_t chain_from_[kMaxSharedModules] = {};
};

}  // namespace

Staging group_stages(const SharingProblem& problem, const StagingEffort& effort) {
  check_problem(problem);
  StageValues values(problem, effort.steps);
  const ModuleGraphBits graph(problem);
  StageList greedy = merge_greedily(graph.ancestors(), values);
  if (greedy.stages.empty()) {
    return {.certificate = {.evaluations = values.evaluations(),
                            .limit = explain_unplaced(problem, values)}};
  }
  greedy = exchange_modules(graph.ancestors(), values, std::move(greedy));
  Grouping grouping(problem, graph, values, greedy.time, effort.evaluations);
  const bool is_whole = grouping.run();
  const StageList found = grouping.best();
  Staging staging = to_staging(values, found.stages.empty() ? greedy : found);
  const bool is_proven = is_whole && values.is_exact();
  staging.certificate.status = is_proven ? Status::kOptimal : Status::kTruncated;
  staging.certificate.lower_bound =
      is_proven ? staging.certificate.value : Nanoseconds{staging_bound(problem, values.options())};
  return staging;
}

}  // namespace tributary::plan
