#include "plan/candidates/list_degrees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "plan/candidates/list_candidates.h"
#include "plan/candidates/listed_choices.h"
#include "plan/chains/chain_bounds.h"
#include "plan/chains/chain_forms.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;

constexpr double kNarrow = 1 - 1e-4;  // allowance for rounding of bytes and times

/// Times of one layer in one pass that are rounded, each by at most 1 ns against the mean pass: its
/// compute both ways, its collectives, and each block that goes around a ring.
constexpr std::int64_t kRoundedOfLayer = 16;
constexpr std::int64_t kRoundedOfRing = 4;

std::int64_t layers_of(const config::ModuleGraph& model) {
  std::int64_t layers = 0;
  for (const config::ModuleNode& module : model.modules)
    for (const config::LayerRun& run : module.layers) layers += run.layers;
  return layers;
}

class CellListing {
 public:
  CellListing(const PlanningProblem& problem, ChainTables& tables)
      : problem_(problem),
        tables_(tables),
        encoders_(encoders_of(problem).size()),
        equal_samples_(has_equal_samples(problem)),
        rules_{.source = problem.costs(), .execution = problem.execution},
        step_(static_cast<double>(rules_.source->min_step().count)),
        layers_(layers_of(problem.model)) {
    for (const PipelineOrder order : problem.space.schedules)
      fills_as_1f1b_ =
          fills_as_1f1b_ && (order == PipelineOrder::k1f1b || order == PipelineOrder::kGpipe);
  }

  CellList run() {
    for (const std::uint64_t apart : list_apart(problem_)) list_set(apart, -1);
    for (const int colocated : list_colocated(problem_))
      list_set(std::uint64_t{1} << colocated, colocated);
    std::stable_sort(list_.cells.begin(), list_.cells.end(),
                     [](const Cell& a, const Cell& b) { return a.rank < b.rank; });
    const auto min = std::ranges::min_element(list_.cells, {}, &Cell::bound);
    if (min != list_.cells.end()) {
      list_.min_bound = std::max(0.0, min->bound);
      list_.rounding = min->rounding;
    }
    return std::move(list_);
  }

 private:
  void list_set(std::uint64_t apart, int colocated) {
    ++list_.placements;
    const std::optional<double> beside = work_apart(apart);
    for (const ChainForm& form : list_forms(problem_, encoders_, apart)) {
      list_.forms.push_back(form);
      list_form(form, apart, colocated, beside);
    }
  }

  /// Device time of the encoders with a mesh of their own, summed over all ranks, each with its
  /// cheapest cut; null when an encoder has no costs.
  [[nodiscard]] std::optional<double> work_apart(std::uint64_t apart) {
    double work = 0;
    for (std::size_t encoder = 0; encoder < encoders_; ++encoder) {
      if ((apart >> encoder & 1) == 0) continue;
      const config::ModuleNode& node = *encoders_of(problem_)[encoder];
      double min = std::numeric_limits<double>::infinity();
      std::string missing;
      for (const ChainForm& form : list_forms(problem_, encoder, apart)) {
        const std::string lacks = missing_degree(problem_, node, {.tp = form.tp}, apart);
        if (lacks.empty()) min = std::min(min, min_work(form));
        if (missing.empty()) missing = lacks;
      }
      if (!std::isfinite(min)) {
        list_.left_out.degrees.insert(missing);
        return std::nullopt;
      }
      work += min;
    }
    return work;
  }
  /// Min device time of one encoder. Microbatches, and whole batches, may have no input for it, so
  /// the mean number of its passes may be a fraction, even below one.
  [[nodiscard]] double min_work(const ChainForm& form) const {
    const double idle = tables_.smallest_pass(form);
    double min = tables_.work(form, 1).compute - (tables_.has_idle_samples(form) ? idle : 0);
    for (std::int64_t parts = 2; problem_.measured && parts <= problem_.global_samples(); ++parts)
      min = std::min(min, static_cast<double>(parts) * tables_.work(form, parts).compute - idle);
    return std::max(0.0, min) * static_cast<double>(form.ranks());
  }

  /// What all cells with one form and one recompute choice ask of the tables.
  struct FormCosts {
    FormCosts(ChainTables& tables, const ChainForm& form, const RecomputeChoice& of)
        : recompute(of),
          one_stage(tables.min_state(form, 1)),
          stages(tables.min_state(form, 2)),
          profile(tables.profile(form)),
          exposed(tables.min_exposed(form)),
          largest(tables.largest_samples(form)) {}
    [[nodiscard]] const ChainState& state(const Cell& cell) const {
      return cell.pp == 1 ? one_stage : stages;
    }
    RecomputeChoice recompute;
    ChainState one_stage;  // lower bound
    ChainState stages;     // lower bound for several stages
    ChainTables::Profile profile;
    double exposed;  // [ns] of the whole batch in one pass
    ChainTables::LargestSamples largest;
  };

  void list_form(const ChainForm& form, std::uint64_t apart, int colocated,
                 std::optional<double> beside) {
    const std::string missing =
        missing_degree(problem_, *problem_.model.find(config::kBackboneModule),
                       {.cp = form.cp, .ulysses = form.ulysses, .tp = form.tp}, form.apart);
    const bool has_costs = missing.empty() && beside.has_value();
    std::vector<FormCosts> costs;  // [list_recompute]
    ChainForm at = form;
    for (const RecomputeChoice& each : list_recompute(problem_, apart)) {
      at.recompute = each.backbone;
      at.inside = each.inside;
      if (has_costs) costs.emplace_back(tables_, at, each);
    }
    // At least one device is left for the encoders.
    const std::int64_t left = apart == 0 || colocated >= 0 ? 0 : 1;
    const std::int64_t max_pp = std::min(problem_.space.max_stages, tables_.units(encoders_));
    for (std::int64_t dp = 1; form.ranks() * dp <= problem_.devices - left; ++dp) {
      if (dp > std::min(problem_.global_samples(), problem_.space.max_replicas)) break;
      if ((dp * form.cp * form.ulysses) % form.ep != 0) continue;
      for (std::int64_t pp = 1; pp <= max_pp && form.ranks() * pp * dp <= problem_.devices - left;
           ++pp) {
        const std::int64_t devices = form.ranks() * pp * dp;
        if (problem_.measured && left == 0 && devices != problem_.devices) continue;
        const BesideWork min_beside = beside_work(beside.value_or(0), left, devices, colocated);
        const std::vector<std::int64_t> numbers = microbatch_numbers(problem_, pp, dp);
        Cell cell{.pp = static_cast<std::int32_t>(pp),
                  .dp = static_cast<std::int32_t>(dp),
                  .colocated = colocated};
        if (!has_costs || meshes_of(problem_, form, pp, dp, &list_.left_out).empty()) {
          list_.left_out.cells += std::ssize(numbers);
          if (!missing.empty()) list_.left_out.degrees.insert(missing);
          continue;
        }
        for (const std::int64_t microbatches : numbers) {
          cell.microbatches = static_cast<std::int32_t>(microbatches);
          add_cell(form, costs, cell, min_beside);
        }
      }
    }
  }

  /// The compute of encoders with a mesh of their own.
  struct BesideWork {
    double all = 0;     // [ns] summed over their ranks
    double each = 0;    // [ns] of their mean rank, beside the backbone
    double before = 0;  // [ns] of a colocated one's mean rank, before and after the backbone
  };
  [[nodiscard]] BesideWork beside_work(double all, std::int64_t left, std::int64_t devices,
                                       int colocated) const {
    BesideWork work{.all = all};
    if (left > 0) work.each = all / static_cast<double>(problem_.devices - devices);
    if (colocated >= 0) work.before = all / static_cast<double>(devices);
    return work;
  }

  /// Lower bound [ns] from the cores: all threads together cannot use more than there are.
  [[nodiscard]] double on_cores(double all_compute) const {
    if (problem_.cluster.cores <= 0) return 0;
    const std::int64_t in_node = problem_.cluster.devices_per_node();
    const std::int64_t machines = (problem_.devices + in_node - 1) / in_node;
    return all_compute * static_cast<double>(std::max<std::int64_t>(1, problem_.threads)) /
           static_cast<double>(problem_.cluster.cores * machines);
  }

  /// The sizes at which the passes of a cell are priced.
  struct CellPasses {
    std::size_t point = 0;  // index into the grid
    double scale = 1;       // factor on the times of that point
    double parts = 1;       // microbatches of all replicas together
  };
  [[nodiscard]] CellPasses passes_of(const Cell& cell) const {
    const std::int64_t parts = std::int64_t{1} * cell.dp * cell.microbatches;
    CellPasses passes{.point = tables_.point_below(parts), .parts = static_cast<double>(parts)};
    passes.scale = tables_.grid(passes.point) / passes.parts;
    return passes;
  }

  /// A rank runs each layer at most once for each microbatch and updates it once. Where ranks share
  /// cores, the rounding of the other ranks counts too.
  [[nodiscard]] double rounding_of(const ChainForm& form, const Cell& cell) const {
    const std::int64_t of_layer = kRoundedOfLayer + kRoundedOfRing * form.cp;
    const double others = std::max(1.0, on_cores(static_cast<double>(problem_.devices)));
    return others * static_cast<double>(of_layer * layers_ * (cell.microbatches + 1));
  }

  /// Takes the min bound over recompute choices that may fit: keeping less means computing more.
  void add_cell(const ChainForm& form, const std::vector<FormCosts>& choices, Cell cell,
                const BesideWork& beside) {
    cell.form = static_cast<std::uint32_t>(list_.forms.size() - 1);
    cell.bound = cell.bytes = std::numeric_limits<double>::infinity();
    cell.rounding = rounding_of(form, cell);
    const CellPasses passes = passes_of(cell);
    const auto [point, scale, parts] = passes;
    bounded_.clear();
    for (const FormCosts& costs : choices) {
      const double kept = std::max(scale * costs.profile.kept[point], costs.largest.kept);
      const double bytes = bytes_of(form, costs.state(cell), cell, kept);
      cell.bytes = std::min(cell.bytes, bytes);
      if (bytes > static_cast<double>(problem_.memory().count)) continue;
      // Kept bytes only lengthen a step where samples are equal: see holding_bound().
      const auto is_covered = [&](const FormCosts* less) {
        return !equal_samples_ && costs.recompute.covers(less->recompute, encoders_);
      };
      if (std::ranges::any_of(bounded_, is_covered)) continue;
      bounded_.push_back(&costs);
      const double each = each_round(costs, cell, passes);
      const double compute = scale * costs.profile.compute[point];
      const double all_compute = compute * parts * static_cast<double>(form.ranks());
      // The largest microbatch is at least as large as the mean one.
      const double path = std::max(scale * costs.profile.path[point], costs.largest.path);
      const double busiest = cell.pp == 1 ? each : busiest_round(costs, cell, passes);
      const double bound =
          std::max({beside.before + chain_bound(form, costs, cell, each, busiest),
                    holding_bound(form, costs, cell, point, scale),
                    on_cores(all_compute + beside.all), beside.before + path, beside.each}) -
          cell.rounding;
      if (bound >= cell.bound) continue;
      cell.bound = bound;
      cell.rank = bound + 0.25 * each * (1 - 1 / static_cast<double>(cell.pp));
    }
    if (std::isfinite(cell.bound))
      list_.cells.push_back(cell);
    else
      ++list_.too_full;
  }

  /// Time of a mean microbatch on all stages. It is priced as a share of the whole batch at the
  /// grid's shape, because fewer and larger microbatches cost no more. Measured costs may break
  /// that, so their grid has every number of microbatches.
  [[nodiscard]] double each_round(const FormCosts& costs, const Cell& cell,
                                  const CellPasses& passes) const {
    const double compute = passes.scale * costs.profile.compute[passes.point];
    const double exposed =
        problem_.measured ? costs.profile.exposed[passes.point] : costs.exposed / passes.parts;
    return compute + exposed + costs.state(cell).each_stage * cell.pp;
  }

  /// Time of a mean microbatch on the busiest rank, which holds whole units.
  [[nodiscard]] double busiest_round(const FormCosts& costs, const Cell& cell,
                                     const CellPasses& passes) const {
    const auto unit_time = [&](double UnitTimes::*unit) {
      const double compute = passes.scale * (costs.profile.unit_compute[passes.point].*unit);
      const double exposed = problem_.measured ? costs.profile.unit_exposed[passes.point].*unit
                                               : costs.profile.unit_exposed[0].*unit / passes.parts;
      return std::max(0.0, compute + exposed);
    };
    const UnitTimes units{.first = unit_time(&UnitTimes::first),
                          .last = unit_time(&UnitTimes::last),
                          .block = unit_time(&UnitTimes::block)};
    return busiest_rank(units, tables_.units(encoders_) - 2, cell.pp) +
           costs.state(cell).each_stage;
  }

  /// Lower bound on the state of one replica, one rank of each stage added up, without passes.
  [[nodiscard]] double held_of(const ChainForm& form, const ChainState& state,
                               const Cell& cell) const {
    cost::StageRules rules = rules_;
    rules.is_cut = cell.pp > 1 || form.apart != 0;
    const std::int64_t max = problem_.space.shards ? cell.dp / form.shards() : 1;
    return split_state(rules, form, state).of_rank(static_cast<double>(max));
  }

  /// Lower bound on what the mean rank of a replica holds.
  [[nodiscard]] double bytes_of(const ChainForm& form, const ChainState& state, const Cell& cell,
                                double kept) const {
    return state.process +
           (held_of(form, state, cell) + kept * 0.999) / static_cast<double>(cell.pp);
  }

  /// Lower bound from memory. What a unit keeps stays until later units are done with the
  /// microbatch. All bytes times the time they are kept must fit into memory times the step.
  /// || Bytes times time is convex in the number of samples only where samples are equal: otherwise
  /// one microbatch may keep many patches while another has the tokens that take long.
  [[nodiscard]] double holding_bound(const ChainForm& form, const FormCosts& costs,
                                     const Cell& cell, std::size_t point, double scale) const {
    if (!equal_samples_) return 0;
    const ChainState& state = costs.state(cell);
    const double room = (static_cast<double>(problem_.memory().count) - state.process) * cell.pp -
                        held_of(form, state, cell);
    return kNarrow * scale * scale * costs.profile.holding[point] * cell.microbatches /
           std::max(1.0, room);
  }

  [[nodiscard]] double chain_bound(const ChainForm& form, const FormCosts& costs, const Cell& cell,
                                   double each, double busiest) const {
    const std::int64_t parts = std::int64_t{1} * cell.dp * cell.microbatches;
    const bool is_level = equal_samples_ && problem_.global_samples() % parts == 0;
    double passes = std::max(each / cell.pp, busiest) * cell.microbatches;
    if (is_level && fills_as_1f1b_)
      passes = std::max(passes, pipeline_time(each, 1, cell.pp, cell.microbatches));
    // At best every rank updates an equal part. The table of a cut sequence also holds a gather
    // that some plans avoid, so it is no lower bound.
    const bool is_cut = form.cp * form.ulysses > 1;
    const double update = is_cut ? 0 : costs.state(cell).update / (double{1} * cell.dp * cell.pp);
    return passes + update + step_;
  }

  const PlanningProblem& problem_;
  ChainTables& tables_;
  std::size_t encoders_;
  bool equal_samples_;
  cost::StageRules rules_;
  double step_;                                 // [ns] that every rank adds once a step
  bool fills_as_1f1b_ = true;                   // whichever order of the space is taken
  std::int64_t layers_;                         // of all modules
  std::vector<const FormCosts*> bounded_ = {};  // costs already bounded in this cell
  CellList list_;
};

}  // namespace

CellList list_cells(const PlanningProblem& problem, ChainTables& min) {
  return CellListing(problem, min).run();
}

}  // namespace tributary::plan
