#include "plan/search/search_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/error.h"
#include "plan/candidates/leanest_choices.h"
#include "plan/search/runner.h"

namespace tributary::plan {
namespace {

constexpr int kMaxLists = 4;
constexpr double kMoreCaution = 1.25;

class Search {
 public:
  Search(const PlanningProblem& problem, const PlanEffort& effort)
      : problem_(problem),
        effort_(effort),
        deals_(problem),
        workers_(problem, deals_, effort.threads),
        batches_(different_batches(problem)) {}

  PlanSearch run() {
    ChainTables tables(problem_);
    // The closed form of memory may be wrong for a whole list: it is remade with more caution.
    CandidateEffort effort = effort_.candidates;
    for (int attempt = 0; attempt < kMaxLists && runners_.empty(); ++attempt) {
      const CandidateList list = list_candidates(problem_, tables, effort);
      result_.cells = list.cells;
      result_.left_out = list.left_out;
      result_.estimates += list.estimates;
      if (attempt == 0) {
        result_.certificate.lower_bound = list.lower_bound;
        rounding_ = list.rounding;
        result_.certificate.limit = list.limit;
      }
      if (list.candidates.empty()) break;
      judge_first(list.candidates);
      effort.caution *= kMoreCaution;
    }
    // Other batches, or the trainer's dispatch, may need more memory: then leaner runners follow.
    const std::vector<Runner> judged = runners_;
    for (const double share : {1.0, 0.97, 0.9}) {
      runners_ = those_within(judged, share);
      finish_runners();
      if (!result_.plans.empty()) break;
    }
    if (result_.plans.empty() && result_.judged > 0) {
      // Those that seemed to be the fastest that fit do not fit.
      runners_.clear();
      judge_first(list_leanest(problem_, tables, usual_candidates(problem_)));
      add_batches(batches_);
      finish_runners();
    }
    if (result_.plans.empty() && !shortage_.empty()) result_.certificate.limit = shortage_;
    result_.certificate.evaluations += workers_.evaluations();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool fits(const PlanVerdict& verdict) {
    if (verdict.peak <= problem_.memory()) return true;
    if (min_peak_.count == 0 || verdict.peak < min_peak_) {
      min_peak_ = verdict.peak;
      shortage_ = str("memory: the plan that needs the least holds ", verdict.peak,
                      " on a device of ", verdict.fullest, ", ", verdict.peak - problem_.memory(),
                      " above the ", problem_.memory(), " that it may hold");
    }
    return false;
  }

  /// The peak with a margin for batches not simulated: the trainer's microbatches are unknown
  /// there.
  [[nodiscard]] Bytes careful_peak(const FoundPlan& found) const {
    const bool is_whole = found.simulated_batches == std::ssize(problem_.batches);
    return found.peak + Bytes{is_whole ? 0 : found.peak.count / 100};
  }

  void judge_first(const std::vector<Candidate>& candidates) {
    std::vector<Runner> judged(candidates.size());
    workers_.for_all(candidates.size(), [&](JudgeWorker& worker, std::size_t i) {
      const PlanChoice& choice = candidates[i].choice;
      std::vector<ChainCut> cuts = worker.cutter.cut(choice, worker.judge);
      PlanVerdict verdict = worker.judge.judge(choice, cuts, 0, 1);
      judged[i] = {choice, std::move(cuts), std::move(verdict)};
    });
    result_.judged += std::ssize(candidates);
    for (Runner& runner : judged)
      if (fits(runner.verdict)) runners_.push_back(std::move(runner));
  }

  [[nodiscard]] std::vector<Runner> those_within(const std::vector<Runner>& runners,
                                                 double share_of_memory) const {
    const double max = share_of_memory * static_cast<double>(problem_.memory().count);
    std::vector<Runner> within;
    std::ranges::copy_if(runners, std::back_inserter(within), [&](const Runner& runner) {
      return static_cast<double>(runner.verdict.peak.count) <= max;
    });
    return within;
  }

  void finish_runners() {
    race();
    polish();
    if (!runners_.empty()) name_winners();
  }

  /// Runners near the best go on to more batches, and the best of these to all batches.
  void race() {
    const auto finalists = static_cast<std::size_t>(effort_.finalists);
    weigh_links(3 * finalists);
    keep_best(3 * finalists);
    add_batches(std::min<std::size_t>(2, batches_));
    keep_best(finalists + finalists / 2);
    add_batches(batches_);
    keep_best(finalists);
  }

  /// Measures the effect of shared links on the first batch, for the best runners, in chunks, until
  /// the others are too slow even without it. Where the budgets end first, the rest gets the mean
  /// effect; where they do not allow `enough` runners, it does nothing.
  void weigh_links(std::size_t enough) {
    constexpr std::size_t kChunk = 32;
    stable_sort_by_mean(runners_);
    const std::size_t max = affordable();
    if (max < std::min(enough, runners_.size())) return;
    double limit = std::numeric_limits<double>::infinity();
    const auto is_near = [&](std::size_t i) {
      return i < enough || static_cast<double>(runners_[i].mean().count) <= limit;
    };
    double links = 0;
    std::size_t count = 0;
    while (count < max && is_near(count)) {
      const std::size_t first = count;
      count = std::min(max, count + kChunk);
      workers_.for_all(count - first,
                       [&](JudgeWorker&, std::size_t i) { weigh(runners_[first + i]); });
      for (std::size_t i = first; i < count; ++i) {
        limit = std::min(limit, effort_.race * static_cast<double>(runners_[i].mean().count));
        links += runners_[i].links;
      }
    }
    std::size_t near = count;
    for (; near < runners_.size() && is_near(near); ++near)
      runners_[near].links = links / static_cast<double>(count);
    runners_.resize(near);
    result_.certificate.evaluations += static_cast<std::int64_t>(count);
    std::erase_if(runners_, [&](const Runner& runner) { return !fits(runner.verdict); });
  }

  /// How many of the first batch's steps the budgets allow.
  [[nodiscard]] std::size_t affordable() const {
    const auto dealt = static_cast<std::size_t>(effort_.dealt / problem_.global_samples());
    auto left = static_cast<double>(effort_.messages);
    std::size_t count = 0;
    for (; count < std::min(dealt, runners_.size()); ++count) {
      left -= messages_of(runners_[count].choice);
      if (left < 0) break;
    }
    return count;
  }

  void weigh(Runner& runner) {
    const FoundPlan shared = finish(runner, 1);
    runner.links =
        static_cast<double>(shared.step.count) / static_cast<double>(runner.mean().count);
    runner.verdict.peak = shared.peak;
    runner.verdict.fullest = shared.fullest;
  }

  /// Keeps the best runners. Colocated encoders have slots of their own, because before links are
  /// shared they look better than they are.
  void keep_best(std::size_t max) {
    stable_sort_by_mean(runners_);
    double limit[2] = {};  // [has a colocated encoder] from the best of its kind
    const auto enough = static_cast<std::size_t>(effort_.finalists);
    std::size_t kept[2] = {};  // [has a colocated encoder]
    std::erase_if(runners_, [&](const Runner& runner) {
      const bool has_colocated = runner.choice.has_colocated();
      const auto room = [&](std::size_t all) { return has_colocated ? quarter_of(all) : all; };
      const std::size_t kind = has_colocated ? 1 : 0;
      std::size_t& count = kept[kind];
      const auto mean = static_cast<double>(runner.mean().count);
      if (count == 0) limit[kind] = effort_.race * mean;
      const bool is_near = mean <= limit[kind];
      if (count >= room(is_near ? max : std::min(max, enough))) return true;
      ++count;
      return false;
    });
  }

  void add_batches(std::size_t until) {
    workers_.for_all(runners_.size(), [&](JudgeWorker& worker, std::size_t i) {
      Runner& runner = runners_[i];
      PlanVerdict& verdict = runner.verdict;
      const std::size_t first = verdict.steps.size();
      if (first >= until) return;
      const PlanVerdict more = worker.judge.judge(runner.choice, runner.cuts, first, until);
      verdict.steps.insert(verdict.steps.end(), more.steps.begin(), more.steps.end());
      if (more.peak > verdict.peak) {
        verdict.peak = more.peak;
        verdict.fullest = more.fullest;
      }
    });
    std::erase_if(runners_, [&](const Runner& runner) { return !fits(runner.verdict); });
  }

  /// Moves single units over stage boundaries while the first batch gets faster.
  void polish() {
    std::vector<std::vector<ChainCut>> polished(runners_.size());
    std::vector<PlanVerdict> verdicts(runners_.size());
    workers_.for_all(runners_.size(), [&](JudgeWorker& worker, std::size_t i) {
      Runner moved = runners_[i];
      std::int64_t moves = effort_.moves;
      Nanoseconds best = moved.verdict.steps.front();
      while (move_one(worker, moved, best, moves)) continue;
      if (moved.cuts == runners_[i].cuts) return;
      verdicts[i] = worker.judge.judge(moved.choice, moved.cuts, 0, batches_);
      polished[i] = std::move(moved.cuts);
    });
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      if (polished[i].empty() || verdicts[i].peak > problem_.memory() ||
          verdicts[i].mean() >= runners_[i].verdict.mean())
        continue;
      runners_[i].cuts = std::move(polished[i]);
      runners_[i].verdict = std::move(verdicts[i]);
    }
    stable_sort_by_mean(runners_);
  }

  bool move_one(JudgeWorker& worker, Runner& runner, Nanoseconds& best, std::int64_t& moves) const {
    for (ChainCut& cut : runner.cuts) {
      for (std::size_t boundary = 1; boundary + 1 < cut.size(); ++boundary) {
        for (const std::int64_t by : {-1, 1}) {
          if (moves-- <= 0) return false;
          cut[boundary] += by;
          if (cut[boundary] > cut[boundary - 1] && cut[boundary] < cut[boundary + 1]) {
            const PlanVerdict verdict = worker.judge.judge(runner.choice, runner.cuts, 0, 1);
            if (verdict.mean() < best && verdict.peak <= problem_.memory()) {
              best = verdict.mean();
              return true;
            }
          }
          cut[boundary] -= by;
        }
      }
    }
    return false;
  }

  /// Batches of the steps with shared links that the budget of messages allows.
  struct SharedBatches {
    std::size_t others = 0;
    std::size_t colocated = 0;
    bool is_best_first = false;  // too many messages for all: those that seem best, in turn
    [[nodiscard]] std::size_t of(const Runner& runner) const {
      return runner.choice.has_colocated() ? colocated : others;
    }
  };
  /// Counts the batches. Colocated encoders whose messages exceed the budget are left out when the
  /// others share links: they could not be compared.
  SharedBatches share_links() {
    const auto budget = static_cast<double>(effort_.messages);
    double others = 0;
    double colocated = 0;
    for (const Runner& runner : runners_)
      (runner.choice.has_colocated() ? colocated : others) += messages_of(runner.choice);
    if (others > 0 && others <= budget) {
      colocated = 0;
      const auto is_too_large = [&](const Runner& runner) {
        if (!runner.choice.has_colocated()) return false;
        const double size = messages_of(runner.choice);
        if (colocated + size > budget) return true;
        colocated += size;
        return false;
      };
      result_.unshared = static_cast<std::int64_t>(std::erase_if(runners_, is_too_large));
    }
    if (others > budget || (others == 0 && colocated > budget))
      return {.others = 1, .colocated = 1, .is_best_first = true};
    const auto batches = [&](double size) {
      return std::min(batches_, static_cast<std::size_t>(budget / std::max(1.0, size)));
    };
    return {.others = batches(others), .colocated = batches(colocated)};
  }

  /// Simulates all runners on all batches. If that exceeds the budget of samples, it simulates all
  /// on the first batch, then the best on more, one by one, while an unfinished one seems better.
  /// If all have too many messages, only those that seem best are simulated, one by one.
  std::vector<FoundPlan> finish_all() {
    const SharedBatches shared = share_links();
    std::vector<FoundPlan> found(runners_.size());
    std::size_t all = 0;
    for (const Runner& runner : runners_) all += shared.of(runner);
    const bool are_few =
        static_cast<std::int64_t>(all) * problem_.global_samples() <= effort_.dealt;
    const auto first = [&](std::size_t i) {
      if (shared.is_best_first) return std::size_t{0};
      return std::min<std::size_t>(shared.of(runners_[i]), are_few ? batches_ : 1);
    };
    workers_.for_all(runners_.size(), [&](JudgeWorker& worker, std::size_t i) {
      Runner& runner = runners_[i];
      if (shared.is_best_first ||
          shared.of(runner) < batches_)  // the judge's steps count for the other batches
        runner.verdict.steps =
            worker.judge
                .judge(runner.choice, runner.cuts, 0, batches_, PlanJudge::Sizes::kAsTheyAre)
                .steps;
      found[i] = finish(runner, first(i));
    });
    std::vector<bool> is_finished(runners_.size());
    Nanoseconds best{std::numeric_limits<std::int64_t>::max()};
    const auto note = [&](std::size_t i, std::size_t batches) {
      result_.certificate.evaluations += static_cast<std::int64_t>(batches);
      is_finished[i] = batches == shared.of(runners_[i]);
      if (is_finished[i] && careful_peak(found[i]) <= problem_.memory())
        best = std::min(best, found[i].step);
    };
    for (std::size_t i = 0; i < found.size(); ++i) note(i, first(i));
    while (true) {
      std::size_t next = found.size();
      for (std::size_t i = 0; i < found.size(); ++i)
        if (!is_finished[i] && found[i].step < best &&
            (next == found.size() || found[i].step < found[next].step))
          next = i;
      if (next == found.size()) return found;
      found[next] = finish(runners_[next], shared.of(runners_[next]));
      note(next, shared.of(runners_[next]));
    }
  }

  void name_winners() {
    std::vector<FoundPlan> finished = finish_all();
    for (FoundPlan& found : finished)
      if (!found.links_shared ||
          fits({.steps = {}, .peak = careful_peak(found), .fullest = found.fullest}))
        result_.plans.push_back(std::move(found));
    std::stable_sort(result_.plans.begin(), result_.plans.end(), is_better);
    if (std::ssize(result_.plans) > effort_.finalists)
      result_.plans.resize(static_cast<std::size_t>(effort_.finalists));
    if (result_.plans.empty()) return;
    Certificate& certificate = result_.certificate;
    certificate.value = result_.plans.front().step;
    TRIB_CHECK(certificate.lower_bound <= certificate.value,
               .what = "plan: a plan is below the bound of all plans",
               .found = str(certificate.value, " with a bound of ", certificate.lower_bound));
    const bool is_simulated =
        result_.plans.front().simulated_batches == std::ssize(problem_.batches);
    certificate.status =
        is_simulated && certificate.value <= certificate.lower_bound + rounding_ * 2
            ? Status::kOptimal
            : Status::kFeasible;
    for (FoundPlan& each : result_.plans) {
      each.plan.predicted.step = each.step;
      each.plan.predicted.lower_bound = certificate.lower_bound;
    }
  }

  [[nodiscard]] FoundPlan finish(const Runner& runner, std::size_t simulated) {
    return finish_plan(problem_, deals_, runner, simulated);
  }

  const PlanningProblem& problem_;
  const PlanEffort& effort_;
  BatchDeals deals_;
  JudgeWorkers workers_;
  std::size_t batches_;
  std::vector<Runner> runners_;
  Nanoseconds rounding_;  // subtracted from the bound; a step may have gained as much
  Bytes min_peak_;
  std::string shortage_;
  PlanSearch result_;
};

}  // namespace

PlanSearch search_plan(const PlanningProblem& problem, const PlanEffort& effort) {
  check_problem(problem);
  return Search(problem, effort).run();
}

}  // namespace tributary::plan
