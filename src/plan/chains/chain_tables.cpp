#include "plan/chains/chain_tables.h"

#include <algorithm>
#include <cmath>

#include "config/family/known_modules.h"
#include "core/error.h"

namespace tributary::plan {
namespace {

/// All numbers up to 8, then steps of a sixteenth; with `all` every number: costs may rise.
std::vector<std::int64_t> grid_up_to(std::int64_t max, bool all) {
  std::vector<std::int64_t> grid;
  for (std::int64_t next = 1; next <= max; next += all ? 1 : std::max<std::int64_t>(1, next / 16))
    grid.push_back(next);
  return grid;
}

constexpr cost::PassShape kNothing{.tokens = 0, .squared_tokens = 0, .sequences = 0};

/// The fewest stages that keep each within the limit; `max` + 1 when even `max` do not.
std::int64_t stages_within(const std::vector<double>& until, double limit, std::int64_t max) {
  std::int64_t stages = 0;
  std::size_t first = 0;
  while (first + 1 < until.size()) {
    if (++stages > max) return stages;
    const auto end = std::upper_bound(until.begin() + static_cast<std::ptrdiff_t>(first),
                                      until.end(), until[first] + limit) -
                     1;
    const auto next = static_cast<std::size_t>(end - until.begin());
    if (next == first) return max + 1;
    first = next;
  }
  return stages;
}

void add_unit(UnitTimes& times, std::int64_t unit, std::int64_t units, double time) {
  if (unit == 0)
    times.first = time;
  else if (unit + 1 == units)
    times.last = time;
  else
    times.block = std::min(times.block, time);
}

}  // namespace

namespace {

/// Index of the form's chain among the chains of choice_of().
std::size_t chain_index(const PlanningProblem& problem, const ChainForm& form) {
  std::size_t chain = 0;
  for (std::size_t i = 0; i < form.encoder && i < encoders_of(problem).size(); ++i)
    chain += form.apart >> i & 1;
  return chain;
}

/// The same form without recompute: it holds the same state.
ChainForm without_recompute(ChainForm form) {
  form.recompute = config::RecomputePlan::kNone;
  form.inside = {};
  return form;
}

bool is_tied(const PlanningProblem& problem) {
  const std::vector<config::LayerRun>& runs = problem.model.find(config::kBackboneModule)->layers;
  return std::any_of(runs.begin(), runs.end(), [](const config::LayerRun& run) {
    return run.shape.kind == config::LayerKind::kHead && run.shape.tied;
  });
}

/// Whether the space has a V order, whose last virtual stage is on the first rank.
bool has_v_order(const PlanSpace& space) {
  return std::any_of(
      space.schedules.begin(), space.schedules.end(),
      [](config::PipelineOrder order) { return config::virtual_stages_of(order) == 2; });
}

ChainState sum_states(const ChainCosts& costs, std::int64_t units) {
  ChainState sum;
  sum.each_stage = static_cast<double>(costs.each_stage().count);
  for (std::int64_t unit = 0; unit < units; ++unit) {
    const cost::StageState& state = costs.state(costs.class_of(unit));
    const auto parameters = static_cast<double>(state.parameters.count);
    const auto all =
        static_cast<double>((state.parameters + state.gradients + state.optimizer).count);
    sum.parameters += parameters;
    sum.gradients += static_cast<double>(state.gradients.count);
    sum.optimizer += static_cast<double>(state.optimizer.count);
    sum.update += static_cast<double>(state.optimizer_step.count);
    sum.process = static_cast<double>(state.process.count);
    if (unit == 0) sum.first = all;
    if (unit + 1 == costs.units()) sum.last = all;
    if (unit > 0 && unit + 1 < costs.units())
      sum.block_parameters = std::max(sum.block_parameters, parameters);
  }
  return sum;
}

}  // namespace

PlanChoice choice_of(const PlanningProblem& problem, const ChainForm& form) {
  PlanChoice choice;
  const std::size_t encoders = encoders_of(problem).size();
  choice.encoders.resize(encoders);
  for (std::size_t i = 0; i < encoders; ++i)
    if ((form.apart >> i & 1) != 0) choice.encoders[i] = ChainChoice{};
  ChainChoice& own = form.encoder < encoders ? *choice.encoders[form.encoder] : choice.backbone;
  own.mesh = {.dp_shard = form.shards(),
              .cp = form.cp,
              .ulysses = form.ulysses,
              .tp = form.tp,
              .ep = form.ep};
  own.recompute = form.recompute;
  choice.inside = form.inside;
  return choice;
}

ChainTables::ChainTables(const PlanningProblem& problem)
    : problem_(problem),
      batch_(mean_batch(problem)),
      spread_(problem),
      may_share_table_(is_tied(problem) && has_v_order(problem.space)),
      grid_(grid_up_to(problem.global_samples(), problem.measured != nullptr)) {
  point_below_.resize(static_cast<std::size_t>(problem.global_samples()) + 1);
  for (std::size_t microbatches = 1, point = 0; microbatches < point_below_.size();
       ++microbatches) {
    if (point + 1 < grid_.size() && grid_[point + 1] <= static_cast<std::int64_t>(microbatches))
      ++point;
    point_below_[microbatches] = point;
  }
  for (const config::ModuleNode* node : encoders_of(problem)) units_.push_back(units_of(*node));
  units_.push_back(units_of(*problem.model.find(config::kBackboneModule)));
}

ChainTables::Table& ChainTables::table_of(const ChainForm& form) {
  auto& recent =
      recent_[(form.encoder * 3 + static_cast<std::size_t>(form.recompute) + 5 * form.inside.bits) %
              recent_.size()];
  if (recent.first != nullptr && *recent.first == form) return *recent.second;
  const auto [found, is_new] = tables_.try_emplace(form);
  Table& table = found->second;
  recent = {&found->first, &table};
  if (!is_new) return table;
  table.costs = std::make_unique<ChainCosts>(problem_, choice_of(problem_, form),
                                             chain_index(problem_, form), /*is_cut=*/true);
  table.points.resize(grid_.size());
  table.is_backbone = form.encoder + 1 == units_.size();
  const cost::Media own =
      table.costs->works_on(cost::Media::kFrames) ? cost::Media::kFrames : cost::Media::kPatches;
  table.largest_sample =
      table.is_backbone ? spread_.largest : spread_.largest_of[static_cast<std::size_t>(own)];
  for (const cost::Media media : spread_.idle)
    if (table.costs->works_on(media)) table.idle.push_back(media);
  table.state = sum_states(*table.costs, table.costs->units());
  return table;
}

ChainTables::Point& ChainTables::point_of(Table& table, std::size_t index) {
  std::unique_ptr<Point>& point = table.points[index];
  if (point) return *point;
  point = std::make_unique<Point>();
  const ChainCosts& costs = *table.costs;
  const cost::MicrobatchShape shape = part_of(batch_, static_cast<double>(grid_[index]));
  std::vector<cost::StageCost> priced;
  for (std::size_t each = 0; each < costs.classes(); ++each)
    priced.push_back(costs.cost(each, shape));
  ChainWork& work = point->work;
  point->until.push_back(0);
  for (std::int64_t unit = 0; unit < costs.units(); ++unit) {
    const cost::StageCost& cost = priced[costs.class_of(unit)];
    const auto forward = static_cast<double>((cost.forward + cost.forward_exposed).count);
    const auto weight = static_cast<double>(cost.weight_gradient.count);
    const double backward =
        static_cast<double>((cost.input_gradient + cost.gradient_exposed).count) + weight;
    work.forward += forward;
    work.backward += backward;
    work.weight += weight;
    const MinTimes min =
        unit == 0 && table.has_inline_idle() ? min_first(table, index) : min_times(cost);
    work.path += min.path;
    add_unit(work.unit_compute, unit, costs.units(), min.compute);
    add_unit(work.unit_exposed, unit, costs.units(), min.exposed);
    work.compute += min.compute;
    work.exposed += min.exposed;
    const auto kept = static_cast<double>(cost.kept.count);
    work.kept += kept;
    work.peak = std::max(
        work.peak, static_cast<double>(std::max(cost.forward_peak, cost.backward_peak).count));
    if (unit == 0) work.first_kept = kept;
    if (unit == 0) work.first_time = forward + backward;
    if (unit + 1 == costs.units()) work.last_kept = kept;
    if (unit + 1 == costs.units()) work.last_time = forward + backward;
    if (unit == costs.units() / 2) {
      work.block_forward = forward;
      work.block_backward = backward;
      work.boundary = static_cast<double>(cost.boundary.count);
    }
    point->until.push_back(point->until.back() + forward + backward);
  }
  double later = 0;
  for (std::int64_t unit = costs.units() - 1; unit >= 0; --unit) {
    const cost::StageCost& cost = priced[costs.class_of(unit)];
    work.holding += later * static_cast<double>(cost.kept.count);
    later += static_cast<double>((cost.forward + cost.input_gradient).count);
  }
  work.point = index;
  return *point;
}

ChainTables::MinTimes ChainTables::min_times(const cost::StageCost& cost) {
  return {.compute = static_cast<double>(
              (cost.forward + cost.input_gradient + cost.weight_gradient).count),
          .exposed = static_cast<double>((cost.forward_exposed + cost.gradient_exposed).count),
          .path = static_cast<double>((cost.forward + cost.input_gradient).count)};
}

ChainTables::MinTimes ChainTables::min_first(Table& table, std::size_t index) const {
  const ChainCosts& costs = *table.costs;
  const auto parts = static_cast<double>(grid_[index]);
  cost::MicrobatchShape rest = part_of(batch_, parts);
  for (const cost::Media media : table.idle) rest.of(media) = kNothing;
  MinTimes times = min_times(costs.cost(costs.class_of(0), rest));
  for (const cost::Media media : table.idle) {
    const MinTimes& min = min_of(media, table, index);
    times.compute += min.compute / parts;
    times.exposed += min.exposed / parts;
    times.path += min.path / parts;
  }
  return times;
}

/// Time of a medium in a unit is convex in its size except at the start: a pass without images
/// costs nothing, one with few pays a fixed cost at once. Nobody knows how many passes share the
/// images: one may have those of several batches while others have none. So the min over the number
/// of passes is taken, for images and sound separately: the times of a unit add up over media.
const ChainTables::MinTimes& ChainTables::min_of(cost::Media media, Table& table,
                                                 std::size_t index) const {
  const ChainCosts& costs = *table.costs;
  const std::size_t first = costs.class_of(0);
  const std::int64_t batches = std::ssize(problem_.batches);
  cost::MicrobatchShape shape{.backbone = kNothing, .encoder = kNothing, .audio = kNothing};
  std::vector<MinTimes>& known = table.of_media[static_cast<std::size_t>(media)];
  const MinTimes idle = min_times(costs.cost(first, shape));
  // Without measured costs, more passes never cost less.
  const auto max_passes = [&](std::size_t point) {
    return problem_.measured ? grid_[point] * batches : 1;
  };
  while (known.size() <= index) {
    const std::size_t point = known.size();
    constexpr double kAny = std::numeric_limits<double>::infinity();
    MinTimes min = point == 0 ? MinTimes{kAny, kAny, kAny} : known.back();
    for (std::int64_t passes = point == 0 ? 1 : max_passes(point - 1) + 1;
         passes <= max_passes(point); ++passes) {
      const double parts = static_cast<double>(passes) / static_cast<double>(batches);
      shape.of(media) = part_of(batch_, parts).of(media);
      const MinTimes each = min_times(costs.cost(first, shape));
      min.compute = std::min(min.compute, parts * (each.compute - idle.compute));
      min.exposed = std::min(min.exposed, parts * (each.exposed - idle.exposed));
      min.path = std::min(min.path, parts * (each.path - idle.path));
    }
    known.push_back(min);
  }
  return known[index];
}

ChainWork ChainTables::work(const ChainForm& form, std::int64_t microbatches) {
  const std::size_t index = point_below_[std::min(microbatches, problem_.global_samples())];
  ChainWork work = point_of(table_of(form), index).work;
  work.scale = static_cast<double>(grid_[index]) / static_cast<double>(microbatches);
  return work;
}

double ChainTables::slowest_stage(const ChainForm& form, const ChainWork& work,
                                  std::int64_t stages) {
  Point& point = point_of(table_of(form), work.point);
  if (point.slowest.empty()) point.slowest.resize(point.until.size() + 1, 0);
  double& known = point.slowest[std::min<std::size_t>(stages, point.slowest.size() - 1)];
  if (known > 0) return known;
  double low = point.until.back() / static_cast<double>(stages);  // too little, or just enough
  double high = point.until.back();
  if (stages_within(point.until, low, stages) <= stages) high = low;
  while (high - low > 1e-3 * high) {
    const double middle = 0.5 * (low + high);
    (stages_within(point.until, middle, stages) <= stages ? high : low) = middle;
  }
  return known = high;
}

ChainTables::Profile ChainTables::profile(const ChainForm& form) {
  Table& table = table_of(form);
  Profile profile;
  for (std::size_t point = 0; point < grid_.size(); ++point) {
    const ChainWork& work = point_of(table, point).work;
    profile.compute.push_back(work.compute);
    profile.path.push_back(work.path);
    profile.exposed.push_back(work.exposed);
    profile.kept.push_back(work.kept);
    profile.holding.push_back(work.holding);
    profile.unit_compute.push_back(work.unit_compute);
    profile.unit_exposed.push_back(work.unit_exposed);
  }
  return profile;
}

const ChainState& ChainTables::state(const ChainForm& form) { return table_of(form).state; }

const ChainState& ChainTables::min_state(ChainForm form, std::int64_t stages) {
  form = without_recompute(form);
  Table& table = table_of(form);
  if (stages > 1) {
    // On one rank, the head shares the embedding's table.
    if (!table.on_stages)
      table.on_stages = sum_states(*table.costs, table.costs->units() - (may_share_table_ ? 1 : 0));
    return *table.on_stages;
  }
  if (!table.on_one) {
    const ChainCosts costs(problem_, choice_of(problem_, form), chain_index(problem_, form),
                           /*is_cut=*/false);
    table.on_one = sum_states(costs, costs.units());
  }
  return *table.on_one;
}

const cost::StageState& ChainTables::state_on_one_stage(ChainForm form, std::int64_t shards) {
  form = without_recompute(form);
  const auto [found, is_new] = table_of(form).sharded.try_emplace(shards);
  if (is_new) {
    PlanChoice choice = choice_of(problem_, form);
    (form.encoder < choice.encoders.size() ? *choice.encoders[form.encoder] : choice.backbone)
        .mesh.dp_shard = shards;
    found->second = plan::state_on_one_stage(problem_, choice, chain_index(problem_, form));
  }
  return found->second;
}

const ChainTables::LargestSamples& ChainTables::largest_samples(const ChainForm& form) {
  Table& table = table_of(form);
  if (table.largest) return *table.largest;
  const ChainCosts& costs = *table.costs;
  LargestSamples& largest = table.largest.emplace();
  for (const std::vector<simulate::SampleSize>& batch : problem_.batches) {
    double path = 0;
    for (const simulate::SampleSize& sample : plan::largest_samples(batch)) {
      const cost::MicrobatchShape shape = simulate::shape_of(sample);
      double time = 0;
      double kept = 0;
      std::vector<cost::StageCost> priced;
      for (std::size_t each = 0; each < costs.classes(); ++each)
        priced.push_back(costs.cost(each, shape));
      for (std::int64_t unit = 0; unit < costs.units(); ++unit) {
        const cost::StageCost& cost = priced[costs.class_of(unit)];
        time += static_cast<double>((cost.forward + cost.input_gradient).count);
        kept += static_cast<double>(cost.kept.count);
      }
      path = std::max(path, time);
      largest.kept = std::max(largest.kept, kept);
    }
    largest.path += path / static_cast<double>(problem_.batches.size());
  }
  return largest;
}

double ChainTables::largest_sample(const ChainForm& form) { return table_of(form).largest_sample; }

bool ChainTables::has_idle_samples(const ChainForm& form) { return !table_of(form).idle.empty(); }

double ChainTables::smallest_pass(const ChainForm& form) {
  const ChainCosts& costs = *table_of(form).costs;
  constexpr cost::PassShape kOne{.tokens = 1, .squared_tokens = 1, .sequences = 1};
  double compute = 0;
  for (std::int64_t unit = 0; unit < costs.units(); ++unit)
    compute += min_times(costs.cost(costs.class_of(unit),
                                    {.backbone = kOne, .encoder = kOne, .audio = kOne}))
                   .compute;
  return compute;
}

double ChainTables::min_exposed(const ChainForm& form) {
  Table& table = table_of(form);
  if (table.exposed >= 0) return table.exposed;
  return table.exposed = point_of(table, 0).work.exposed;
}

}  // namespace tributary::plan
