#include "plan/candidates/leanest_choices.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "plan/candidates/cell_expansion.h"
#include "plan/candidates/least_cells.h"
#include "plan/judge/cut_chains.h"

namespace tributary::plan {
namespace {

constexpr std::size_t kMaxCells = 2000;
constexpr std::int64_t kMaxJudged = 32;

/// Keeps the choice with the min memory of each kind.
class LeanestTaker final : public ChoiceTaker {
 public:
  void offer(const PlanChoice& choice, const StepEstimate& estimate, bool /*fits*/,
             ChoiceKind /*kind*/) override {
    const auto [found, is_new] = leanest_.try_emplace(key_of(choice));
    Entry& entry = found->second;
    if (!is_new && entry.share <= estimate.memory_share) return;
    entry = {.candidate = {.choice = choice, .estimate = estimate.value()},
             .share = estimate.memory_share};
  }
  [[nodiscard]] double limit(bool /*is_colocated*/) const override {
    return std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] std::vector<Candidate> take(std::int64_t max) const {
    std::vector<const Entry*> entries;
    for (const auto& [key, entry] : leanest_) entries.push_back(&entry);
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry* a, const Entry* b) { return a->share < b->share; });
    std::vector<Candidate> candidates;
    for (const Entry* entry : entries)
      if (std::ssize(candidates) < max) candidates.push_back(entry->candidate);
    return candidates;
  }

 private:
  struct Entry {
    Candidate candidate = {};
    double share = 0;
  };
  using Key = std::vector<std::int64_t>;
  static Key key_of(const PlanChoice& choice) {
    const config::MeshShape& mesh = choice.backbone.mesh;
    Key key{mesh.tp,
            mesh.pp,
            choice.backbone.replicas(),
            mesh.cp,
            mesh.ulysses,
            mesh.ep,
            static_cast<std::int64_t>(choice.schedule),
            choice.chunks};
    for (const std::optional<ChainChoice>& encoder : choice.encoders)
      key.push_back(!encoder ? 0 : encoder->is_colocated() ? 1 : 2);
    return key;
  }

  std::map<Key, Entry> leanest_;
};

/// The same problem with unlimited memory and everything recomputed that can be.
PlanningProblem lean_problem(const PlanningProblem& problem) {
  PlanningProblem lean = problem;
  lean.cluster.device.memory = {std::int64_t{1} << 60};
  lean.cluster.device.reserve = {};
  const std::vector<config::RecomputePlan>& levels = problem.space.recompute;
  lean.space.recompute = {*std::max_element(levels.begin(), levels.end())};
  return lean;
}

/// The cells with the smallest microbatches that each kind of schedule can run: the max number of
/// microbatches, the largest multiple of pp, and the largest number that a V takes.
std::vector<Cell> leanest_cells(const CellList& list) {
  using Group = std::tuple<std::uint32_t, std::int32_t, std::int32_t, std::int32_t>;
  std::map<Group, std::map<int, Cell>> groups;
  for (const Cell& cell : list.cells) {
    std::map<int, Cell>& max = groups[{cell.form, cell.pp, cell.dp, cell.colocated}];
    const auto note = [&](int kind) {
      const auto [found, is_new] = max.try_emplace(kind, cell);
      if (!is_new && found->second.microbatches < cell.microbatches) found->second = cell;
    };
    note(0);
    if (cell.microbatches % cell.pp == 0) note(1);
    if (cell.microbatches <= kMaxMicrobatchesOfV) note(2);
  }
  std::vector<Cell> cells;
  for (const auto& [group, max] : groups) {
    std::set<std::int32_t> numbers;
    for (const auto& [kind, cell] : max)
      if (numbers.insert(cell.microbatches).second) cells.push_back(cell);
  }
  std::stable_sort(cells.begin(), cells.end(),
                   [](const Cell& a, const Cell& b) { return a.bytes < b.bytes; });
  if (cells.size() > kMaxCells) cells.resize(kMaxCells);
  return cells;
}

}  // namespace

std::vector<Candidate> list_leanest(const PlanningProblem& problem, ChainTables& tables,
                                    std::int64_t max) {
  const PlanningProblem lean = lean_problem(problem);
  LeanestTaker taker;
  CellExpansion expansion(lean, tables, /*caution=*/1, taker, EncoderAim::kMemory);
  const CellList list = list_least_cells(lean, tables);
  for (const Cell& cell : leanest_cells(list)) expansion.expand(list.forms[cell.form], cell);
  return taker.take(max);
}

std::vector<LeanChoice> judge_leanest(const PlanningProblem& problem, ChainTables& tables) {
  BatchDeals deals(problem);
  PlanJudge judge(problem, deals);
  ChainCutter cutter(problem);
  const std::size_t batches = different_batches(problem);
  std::vector<LeanChoice> judged;
  for (Candidate& candidate : list_leanest(problem, tables, kMaxJudged)) {
    const std::vector<ChainCut> cuts = cutter.cut(candidate.choice, judge);
    const PlanVerdict verdict = judge.judge(candidate.choice, cuts, 0, batches);
    judged.push_back({std::move(candidate), verdict.peak, verdict.fullest});
  }
  return judged;
}

}  // namespace tributary::plan
