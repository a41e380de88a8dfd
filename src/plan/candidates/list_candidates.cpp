#include "plan/candidates/list_candidates.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "plan/candidates/kept_candidates.h"
#include "plan/candidates/leanest_choices.h"
#include "plan/candidates/least_cells.h"
#include "schedule/order/all_orders.h"

namespace tributary::plan {
namespace {

/// Why no choice is left, unless memory is the reason.
std::string explain_none(const PlanningProblem& problem, const CellList& cells) {
  if (cells.placements == 0)
    return str("placements: none of the space takes all ", encoders_of(problem).size(),
               " encoders; one at most is colocated, feeds the backbone alone, and trains beside "
               "schedules with whole backwards; what a module of the backbone's ranks feeds is "
               "there too");
  const bool none_fails_by_memory = cells.cells.empty() && cells.too_full == 0;
  if (none_fails_by_memory && cells.left_out.cells > 0)
    return str("measured degrees: all ", cells.left_out.cells, " cells on ", problem.devices,
               " devices need what was not measured, as ", cells.left_out.text(),
               "; the profile has ", problem.measured->degrees());
  if (none_fails_by_memory && problem.measured)
    return str("devices: no degrees of the space take all of ", problem.devices, " devices");
  if (cells.forms.empty())
    return str("devices: no degree of the space cuts the model on ", problem.devices, " devices");
  std::string orders;
  for (const config::PipelineOrder order : problem.space.schedules)
    orders += str(orders.empty() ? "" : ", ", schedule::traits_of(order).name);
  return str("schedules: none of ", orders, " runs with the stages and microbatches that ",
             problem.devices, " devices allow");
}

/// Used where the closed form finds nothing that may fit: takes the leanest choices that fit when
/// judged, or reports how many bytes are missing.
void take_leanest(const PlanningProblem& problem, ChainTables& tables, const CellList& cells,
                  CandidateList& list) {
  const std::vector<LeanChoice> leanest = judge_leanest(problem, tables);
  for (const LeanChoice& each : leanest)
    if (each.peak <= problem.memory()) list.candidates.push_back(each.candidate);
  if (!list.candidates.empty()) return;
  if (leanest.empty()) {
    list.limit = explain_none(problem, cells);
    return;
  }
  const LeanChoice& least =
      *std::min_element(leanest.begin(), leanest.end(),
                        [](const LeanChoice& a, const LeanChoice& b) { return a.peak < b.peak; });
  list.limit =
      str("memory: ", describe(problem, least.candidate.choice), " holds the least, ", least.peak,
          " on a device of ", least.fullest, ", ", least.peak - problem.memory(), " above the ",
          problem.memory(), " that a plan may hold");
}

}  // namespace

std::vector<std::int64_t> microbatch_numbers(const PlanningProblem& problem, std::int64_t pp,
                                             std::int64_t replicas) {
  const std::int64_t samples = problem.global_samples() / replicas;
  const std::int64_t max = std::min(samples, problem.space.max_microbatches);
  std::vector<std::int64_t> numbers;
  for (std::int64_t next = 1; next <= max; next += std::max<std::int64_t>(1, next / 8))
    numbers.push_back(next);
  for (std::int64_t times = 1; times <= 8; times *= 2)
    if (times * pp <= max) numbers.push_back(times * pp);
  if (problem.global_samples() % replicas == 0)
    for (std::int64_t part = 1; part <= std::min<std::int64_t>(samples, 64); ++part)
      if (samples % part == 0 && samples / part <= max) numbers.push_back(samples / part);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::int64_t usual_candidates(const PlanningProblem& problem) {
  constexpr std::int64_t kDealt = 200 * 2048;
  return std::clamp<std::int64_t>(kDealt / problem.global_samples(), 200, 1600);
}

CandidateList list_candidates(const PlanningProblem& problem, ChainTables& tables,
                              const CandidateEffort& effort) {
  const CellList cells = list_least_cells(problem, tables);
  KeptByPlacement kept(effort.keep > 0 ? effort.keep : usual_candidates(problem), effort.within);
  CellExpansion expansion(problem, tables, effort.caution, kept);
  for (const Cell& cell : cells.cells) {
    const bool is_colocated = cell.colocated >= 0;
    if (cell.rank < kept.sure_limit(is_colocated)) {
      expansion.expand(cells.forms[cell.form], cell);
    } else if (cell.rank >= kept.sure_limit(!is_colocated)) {
      break;
    }
  }
  CandidateList list;
  list.cells = std::ssize(cells.cells);
  list.left_out = cells.left_out;
  list.estimates = kept.offered();
  if (!cells.cells.empty()) {
    list.lower_bound = {static_cast<std::int64_t>(cells.min_bound)};
    list.rounding = {static_cast<std::int64_t>(std::ceil(cells.rounding))};
  }
  list.candidates = kept.take();
  if (!list.candidates.empty()) return list;
  const bool none_runs = !cells.cells.empty() && expansion.backbones() == 0;
  if (none_runs)
    list.limit = explain_none(problem, cells);
  else
    take_leanest(problem, tables, cells, list);
  return list;
}

}  // namespace tributary::plan
