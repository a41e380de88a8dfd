#include "plan/exact/list_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "plan/exact/cells.h"
#include "plan/exact/chain_forms.h"
#include "plan/exact/encoder_choices.h"
#include "plan/exact/estimate_step.h"
#include "schedule/order/all_orders.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::RecomputePlan;

/// The best so far, worst on top.
class Kept {
 public:
  explicit Kept(std::int64_t most) : most_(most) {}

  /// highest: that is of any use
  void offer(const PlanChoice& choice, double estimate, double highest) {
    ++offered_;
    if (estimate >= limit(highest)) return;
    best_ = std::min(best_, estimate);
    heap_.push_back({{.choice = choice, .estimate = estimate}, offered_});
    std::push_heap(heap_.begin(), heap_.end(), is_better);
    shrink(most_);
  }
  void shrink(std::int64_t most) {
    for (most_ = most; std::ssize(heap_) > most_; heap_.pop_back())
      std::pop_heap(heap_.begin(), heap_.end(), is_better);
  }
  /// Nothing from here on is kept.
  [[nodiscard]] double limit(double highest) const {
    return std::ssize(heap_) < most_ ? highest
                                     : std::min(highest, heap_.front().candidate.estimate);
  }
  [[nodiscard]] double best() const { return best_; }
  [[nodiscard]] std::int64_t offered() const { return offered_; }
  [[nodiscard]] std::vector<Candidate> take(double highest) {
    std::sort(heap_.begin(), heap_.end(), is_better);
    std::vector<Candidate> candidates;
    for (Entry& entry : heap_)
      if (entry.candidate.estimate <= highest) candidates.push_back(std::move(entry.candidate));
    return candidates;
  }

 private:
  struct Entry {
    Candidate candidate;
    std::int64_t number;
  };
  static bool is_better(const Entry& a, const Entry& b) {
    return a.candidate.estimate != b.candidate.estimate
               ? a.candidate.estimate < b.candidate.estimate
               : a.number < b.number;
  }

  std::int64_t most_;
  std::vector<Entry> heap_;
  std::int64_t offered_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

/// Choices that fit by the closed form, and such as may fit: of these too none is of use that is
/// much slower than the best that fits, but the fastest of them may be none that does.
struct KeptChoices {
  KeptChoices(std::int64_t room_for, std::int64_t room_for_unsure, double within_best)
      : room(room_for),
        room_of_unsure(room_for_unsure),
        within(within_best),
        sure(room_for),
        unsure(room_for) {}

  void offer(const PlanChoice& choice, double estimate, bool fits) {
    (fits ? sure : unsure).offer(choice, estimate, highest());
    if (offered() > room) unsure.shrink(room_of_unsure);  // fewer have room whatever they are
  }

  /// A quarter, or what the others leave, may be choices of which it is not sure that they fit.
  [[nodiscard]] std::vector<Candidate> take() {
    const auto most = static_cast<std::size_t>(room);
    std::vector<Candidate> fitting = sure.take(highest());
    std::vector<Candidate> taken = unsure.take(highest());
    const std::size_t left = most - std::min(most, fitting.size());
    const std::size_t quarter = quarter_of(most);
    if (taken.size() > std::max(quarter, left)) taken.resize(std::max(quarter, left));
    if (fitting.size() > most - taken.size()) fitting.resize(most - taken.size());
    taken.insert(taken.end(), fitting.begin(), fitting.end());
    return taken;
  }

  [[nodiscard]] std::int64_t offered() const { return sure.offered() + unsure.offered(); }
  /// Nothing from here on is kept, whether it fits or only may.
  [[nodiscard]] double limit() const { return std::max(sure_limit(), unsure.limit(highest())); }
  [[nodiscard]] double sure_limit() const { return sure.limit(highest()); }

  std::int64_t room;
  std::int64_t room_of_unsure;
  double within;
  Kept sure;
  Kept unsure;

 private:
  [[nodiscard]] double highest() const { return within * sure.best(); }
};

/// Colocated encoders by themselves, a quarter as many more: were the closed form a little too kind
/// to them, or too strict, one kind of placement would leave no room for the others. Their twins
/// get the room that is left. A quarter of all others may be encoders with the degrees of the
/// backbone, which the closed form does not know to be better on slow links.
struct KeptByPlacement {
  KeptByPlacement(std::int64_t most, double within)
      : colocated(quarter_of(most), quarter_of(most), within),
        twins(colocated),
        others(most, quarter_of(most), within),
        alike(others) {}

  KeptChoices& of(bool is_colocated) { return is_colocated ? colocated : others; }
  [[nodiscard]] std::vector<Candidate> take() {
    std::vector<Candidate> more = colocated.take();
    twins.room -= std::ssize(more);
    append(twins.take(), more);
    const std::int64_t most = others.room;
    alike.room = std::max(quarter_of(most), most - others.offered());
    std::vector<Candidate> taken = alike.take();
    const double slowest = others.within * others.sure.best();
    std::erase_if(taken, [&](const Candidate& each) { return each.estimate > slowest; });
    others.room = most - std::ssize(taken);
    append(others.take(), taken);
    append(std::move(more), taken);
    std::stable_sort(taken.begin(), taken.end(), [](const Candidate& a, const Candidate& b) {
      return a.estimate < b.estimate;
    });
    return taken;
  }
  [[nodiscard]] std::int64_t offered() const {
    return colocated.offered() + twins.offered() + alike.offered() + others.offered();
  }

  KeptChoices colocated;
  KeptChoices twins;
  KeptChoices others;
  KeptChoices alike;  // among the places of the others

 private:
  static void append(std::vector<Candidate> more, std::vector<Candidate>& taken) {
    taken.insert(taken.end(), more.begin(), more.end());
  }
};

/// Goes through the choices of one cell after another.
class CellExpansion {
 public:
  CellExpansion(const PlanningProblem& problem, ChainTables& tables, double caution,
                KeptByPlacement& kept)
      : problem_(problem),
        encoders_(encoders_of(problem).size()),
        estimator_(problem, tables),
        encoder_choices_(problem, tables, caution),
        caution_(caution),
        kept_(kept) {}

  /// The choice whose backbone needs the least memory, and how much.
  [[nodiscard]] std::string leanest() const {
    if (!std::isfinite(least_share_)) {
      std::string orders;
      for (const PipelineOrder order : problem_.space.schedules)
        orders += str(orders.empty() ? "" : ", ", schedule::traits_of(order).name);
      return str("schedules: none of ", orders, " runs with the stages and microbatches that ",
                 problem_.devices, " devices allow");
    }
    const Bytes most = problem_.memory();
    const Bytes needed{std::llround(least_share_ * static_cast<double>(most.count))};
    return str("memory: ", describe(problem_, leanest_), " holds the least, ", needed,
               " on a device by estimate, ", needed - most, " above the ", most,
               " that a plan may hold");
  }

  void expand(const ChainForm& form, const Cell& cell) {
    PlanChoice choice;
    choice.encoders.resize(encoders_);
    choice.microbatches = cell.microbatches;
    for (const config::MeshShape& mesh : meshes_of(problem_, form, cell.pp, cell.dp)) {
      choice.backbone.mesh = mesh;
      for (const PipelineOrder order : problem_.space.schedules) {
        choice.schedule = order;
        for (const std::int64_t chunks : chunks_of(order, cell)) {
          choice.chunks = chunks;
          for (const RecomputePlan level : problem_.space.recompute) {
            choice.backbone.recompute = level;
            if (place_encoders(form, cell, choice)) break;  // more recompute only costs more
          }
        }
      }
    }
  }

 private:
  /// Numbers of chunks that an order can have here; none when it cannot run.
  [[nodiscard]] std::vector<std::int64_t> chunks_of(PipelineOrder order, const Cell& cell) const {
    const std::int64_t pp = cell.pp;
    const std::int64_t units = units_of(*problem_.model.find("backbone"));
    if (pp == 1) return order == PipelineOrder::k1f1b || !has_1f1b() ? plain(order) : none();
    switch (order) {
      case PipelineOrder::kInterleaved: {
        std::vector<std::int64_t> chunks;
        if (cell.microbatches % pp != 0) return chunks;
        for (const std::int64_t each : problem_.space.chunks)
          if (each * pp <= units) chunks.push_back(each);
        return chunks;
      }
      case PipelineOrder::kZbV:
      case PipelineOrder::kVHalf:
      case PipelineOrder::kVMin:
        // Their lists take long to make for many microbatches, which gain little by them.
        if (2 * pp > units || cell.microbatches > kMostMicrobatchesOfV) return none();
        return {2};
      default:
        return plain(order);
    }
  }
  static constexpr std::int64_t kMostMicrobatchesOfV = 64;
  [[nodiscard]] bool has_1f1b() const {
    const std::vector<PipelineOrder>& orders = problem_.space.schedules;
    return std::find(orders.begin(), orders.end(), PipelineOrder::k1f1b) != orders.end();
  }
  static std::vector<std::int64_t> none() { return {}; }
  static std::vector<std::int64_t> plain(PipelineOrder order) {
    return config::virtual_stages_of(order) == 1 ? std::vector<std::int64_t>{1} : none();
  }

  /// True when more recompute is of no use: the choice surely fits as it is, or is not kept.
  bool place_encoders(const ChainForm& form, const Cell& cell, PlanChoice& choice) {
    const StepEstimate alone = estimator_.backbone(form, choice);
    if (alone.memory_share < least_share_) {
      least_share_ = alone.memory_share;
      leanest_ = choice;
    }
    if (!alone.may_fit(caution_)) return false;
    if (form.apart == 0) return offer(choice, alone, kept_.others);
    // No encoder makes it faster.
    if (alone.value() >= kept_.of(cell.colocated >= 0).limit()) return true;
    bool any = false;
    const std::vector<EncoderSet> sets =
        cell.colocated >= 0 ? encoder_choices_.list_colocated(
                                  static_cast<std::size_t>(cell.colocated), choice, alone)
                            : encoder_choices_.list(form.apart, choice, alone);
    for (const EncoderSet& set : sets) {
      for (std::size_t i = 0; i < encoders_; ++i) choice.encoders[i] = set.encoders[i];
      if (is_aligned(problem_, choice) && uses_all(choice))
        any = offer(choice, set.estimate,
                    set.is_twin    ? kept_.twins
                    : set.is_alike ? kept_.alike
                                   : kept_.of(choice.has_colocated())) ||
              any;
      for (std::optional<ChainChoice>& encoder : choice.encoders) encoder.reset();
    }
    return any;
  }

  /// Measured costs are those of as many ranks as there are.
  [[nodiscard]] bool uses_all(const PlanChoice& choice) const {
    return !problem_.measured || choice.devices() == problem_.devices;
  }

  bool offer(const PlanChoice& choice, const StepEstimate& estimate, KeptChoices& kept) {
    const bool fits = estimate.fits(caution_);
    if (fits || estimate.may_fit(caution_)) kept.offer(choice, estimate.value(), fits);
    return fits;
  }

  const PlanningProblem& problem_;
  std::size_t encoders_;
  StepEstimator estimator_;
  EncoderChoices encoder_choices_;
  double caution_;
  KeptByPlacement& kept_;
  double least_share_ = std::numeric_limits<double>::infinity();
  PlanChoice leanest_;
};

/// Gives causal windows the pairs of a token of the shortest sample: longer ones have more, in a
/// curve that is not convex. Whether there are any.
bool narrow_windows(PlanningProblem& problem) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::vector<SampleSize>& batch : problem.batches)
    for (const SampleSize& sample : batch)
      shortest = std::min(shortest, static_cast<double>(sample.tokens));
  bool has_windows = false;
  for (config::ModuleNode& module : problem.model.modules) {
    for (config::LayerRun& run : module.layers) {
      if (run.shape.window == 0 || !run.shape.causal) continue;
      const double pairs =
          attended_pairs(run.shape, {.tokens = shortest, .squared_tokens = shortest * shortest});
      // Counted as a full square, of which a causal block has half.
      run.shape.window = std::max<std::int64_t>(1, std::int64_t(pairs / shortest / 2));
      run.shape.causal = false;
      has_windows = true;
    }
  }
  return has_windows;
}

/// Bounds by costs that are convex in the size of a pass.
CellList list_least_cells(const PlanningProblem& problem, ChainTables& tables) {
  const std::shared_ptr<const CostSource> convex = problem.costs()->convex();
  PlanningProblem least = problem;
  if (!narrow_windows(least) && !convex) return list_cells(problem, tables);
  if (convex) least.measured = convex;
  ChainTables least_tables(least);
  return list_cells(least, least_tables);
}

std::string explain_shortage(const PlanningProblem& problem, const CellList& cells,
                             const CellExpansion& expansion) {
  if (cells.placements == 0)
    return str("placements: none of the space takes all ", encoders_of(problem).size(),
               " encoders; one at most is colocated, and trains beside schedules with whole "
               "backwards alone");
  const bool none_fails_by_memory = cells.cells.empty() && cells.fullest.empty();
  if (none_fails_by_memory && cells.left_out.cells > 0)
    return str("measured degrees: all ", cells.left_out.cells, " cells on ", problem.devices,
               " devices need what was not measured, as ", cells.left_out.text(),
               "; the profile has ", problem.measured->degrees());
  if (none_fails_by_memory && problem.measured)
    return str("devices: no degrees of the space take all of ", problem.devices, " devices");
  if (cells.forms.empty())
    return str("devices: no degree of the space cuts the model on ", problem.devices, " devices");
  if (cells.cells.empty() && cells.least_bytes > static_cast<double>(problem.memory().count)) {
    const Bytes needed{std::llround(cells.least_bytes)};
    return str("memory: ", cells.fullest, " needs the least, ", needed,
               " of a device with all that the space allows recomputed and sharded, ",
               needed - problem.memory(), " above the ", problem.memory(), " that a plan may hold");
  }
  return expansion.leanest();
}

}  // namespace

std::vector<std::int64_t> microbatch_numbers(const PlanningProblem& problem, std::int64_t pp,
                                             std::int64_t replicas) {
  const std::int64_t samples = problem.global_samples() / replicas;
  const std::int64_t most = std::min(samples, problem.space.most_microbatches);
  std::vector<std::int64_t> numbers;
  for (std::int64_t next = 1; next <= most; next += std::max<std::int64_t>(1, next / 8))
    numbers.push_back(next);
  for (std::int64_t times = 1; times <= 8; times *= 2)
    if (times * pp <= most) numbers.push_back(times * pp);
  if (problem.global_samples() % replicas == 0)
    for (std::int64_t part = 1; part <= std::min<std::int64_t>(samples, 64); ++part)
      if (samples % part == 0 && samples / part <= most) numbers.push_back(samples / part);
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
    if (cell.rank < kept.of(is_colocated).sure_limit()) {
      expansion.expand(cells.forms[cell.form], cell);
    } else if (cell.rank >= kept.of(!is_colocated).sure_limit()) {
      break;
    }
  }
  CandidateList list;
  list.cells = std::ssize(cells.cells);
  list.left_out = cells.left_out;
  list.estimates = kept.offered();
  if (!cells.cells.empty()) list.lower_bound = {static_cast<std::int64_t>(cells.least_bound)};
  list.candidates = kept.take();
  if (list.candidates.empty()) list.limit = explain_shortage(problem, cells, expansion);
  return list;
}

}  // namespace tributary::plan
