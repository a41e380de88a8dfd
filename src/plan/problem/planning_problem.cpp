#include "plan/problem/planning_problem.h"

#include <algorithm>
#include <set>

#include "config/family/known_modules.h"
#include "config/plan/plan_names.h"
#include "core/error.h"
#include "cost/stages/place_layers.h"

namespace tributary::plan {
namespace {

using config::LayerKind;
using config::ModuleNode;

bool has_blocks(const ModuleNode& node) {
  return std::any_of(node.layers.begin(), node.layers.end(), [](const config::LayerRun& run) {
    return run.shape.kind == LayerKind::kBlock;
  });
}

bool reaches_backbone(const config::ModuleGraph& model, const std::string& from) {
  std::set<std::string> seen;
  std::vector<std::string> open{from};
  while (!open.empty()) {
    const std::string module = open.back();
    open.pop_back();
    if (module == config::kBackboneModule) return true;
    for (const config::ModuleEdge& edge : model.edges)
      if (edge.from == module && seen.insert(edge.to).second) open.push_back(edge.to);
  }
  return false;
}

void check_sample(const simulate::SampleSize& sample, bool has_both) {
  const bool is_possible = sample.tokens >= 1 && sample.patches >= 0 && sample.items >= 0 &&
                           sample.frames >= 0 && sample.clips >= 0;
  TRIB_REQUIRE(
      is_possible, .what = "plan: sample of an impossible size", .where = "batches",
      .found = str(sample.tokens, " tokens, ", sample.patches, " patches, ", sample.items,
                   " items, ", sample.frames, " positions of sound, ", sample.clips, " clips"),
      .expected = "tokens from 1, all others from 0");
  TRIB_REQUIRE(sample.frames == 0 || has_both,
               .what = "plan: model does not encode sound beside images", .where = "batches",
               .found = str(sample.frames, " positions of sound"),
               .expected = "none; sound alone is given as patches");
}

void check_batches(const PlanningProblem& problem) {
  TRIB_REQUIRE(!problem.batches.empty() && !problem.batches.front().empty(),
               .what = "plan: no batch to judge plans by", .where = "batches",
               .expected = "at least one sample");
  const bool has_both = cost::has_both_media(problem.model);
  for (const std::vector<simulate::SampleSize>& batch : problem.batches) {
    TRIB_REQUIRE(std::ssize(batch) == problem.global_samples(),
                 .what = "plan: batches differ in their number of samples", .where = "batches",
                 .found = str(batch.size()), .expected = str(problem.global_samples()));
    for (const simulate::SampleSize& sample : batch) check_sample(sample, has_both);
  }
}

void check_model(const config::ModuleGraph& model) {
  const ModuleNode* backbone = model.find(config::kBackboneModule);
  TRIB_REQUIRE(backbone != nullptr && has_blocks(*backbone),
               .what = "plan: model has no backbone to place",
               .where = str("model ", model.name, " modules.backbone"),
               .expected = "a module of that name with blocks");
  for (const ModuleNode& node : model.modules)
    TRIB_REQUIRE(reaches_backbone(model, node.name),
                 .what = "plan: module behind the backbone, or beside it, cannot be placed yet",
                 .where = str("model ", model.name, " modules.", node.name),
                 .expected = "modules that feed the backbone");
}

}  // namespace

bool PlanningProblem::is_frozen(const std::string& module) const {
  return std::find(frozen.begin(), frozen.end(), module) != frozen.end();
}

std::shared_ptr<const cost::CostSource> PlanningProblem::costs() const {
  return measured ? measured : std::make_shared<const cost::ClusterCosts>(cluster);
}

config::TrainMode PlanningProblem::mode_of(const std::string& module) const {
  if (is_frozen(module)) return config::TrainMode::kFrozen;
  return training.adapter.kind == config::AdapterKind::kNone ? config::TrainMode::kFull
                                                             : config::TrainMode::kLora;
}

bool PlanningProblem::shares_cores(std::int64_t ranks) const {
  const std::int64_t on_machine = std::min(ranks, cluster.devices_per_node());
  return cluster.cores > 0 && on_machine * std::max<std::int64_t>(1, threads) > cluster.cores;
}

double PlanningProblem::threads_per_core(std::int64_t ranks) const {
  if (!shares_cores(ranks)) return 1;
  const std::int64_t in_node = cluster.devices_per_node();
  const auto cores = static_cast<double>(cluster.cores * ((ranks + in_node - 1) / in_node));
  return std::max(1.0, static_cast<double>(ranks * std::max<std::int64_t>(1, threads)) / cores);
}

void check_problem(const PlanningProblem& problem) {
  check_model(problem.model);
  TRIB_REQUIRE(problem.devices >= 1 && problem.devices <= problem.cluster.devices,
               .what = "plan: cluster has not so many devices", .where = "devices",
               .found = str(problem.devices), .expected = str("1 to ", problem.cluster.devices));
  TRIB_REQUIRE(!problem.cluster.levels.empty(), .what = "plan: cluster has no links",
               .where = "cluster.levels", .expected = "at least one level");
  TRIB_REQUIRE(problem.memory().count > 0, .what = "plan: device has no memory for a plan",
               .where = "cluster.device.memory_bytes", .found = str(problem.cluster.device.memory),
               .expected = str("above reserve_bytes, ", problem.cluster.device.reserve));
  TRIB_REQUIRE(
      !problem.measured ||
          problem.measured->has_collective(config::CollectiveOp::kAllReduce, problem.devices),
      .what = "plan: steps of so many ranks were not measured", .where = "devices",
      .found = str(problem.devices),
      .expected = str("ranks of a measured all-reduce; measured are ", problem.measured->degrees()),
      .fix = str("choose such a number, or tributary profile --ranks ", problem.devices));
  for (const std::string& module : problem.frozen)
    TRIB_REQUIRE(problem.model.find(module) != nullptr, .what = "plan: model has no such module",
                 .where = "freeze", .found = module, .expected = "a module of the model");
  for (const config::Placement each : problem.space.placements)
    TRIB_REQUIRE(each == config::Placement::kInline || each == config::Placement::kColocated ||
                     each == config::Placement::kSeparate,
                 .what = "plan: placement cannot be searched", .where = "space.placements",
                 .found = config::plan_name_of(each), .expected = "inline, colocated or separate");
  check_batches(problem);
}

std::vector<const ModuleNode*> encoders_of(const PlanningProblem& problem) {
  std::vector<const ModuleNode*> encoders;
  for (const ModuleNode& node : problem.model.modules)
    if (node.name != config::kBackboneModule && has_blocks(node)) encoders.push_back(&node);
  return encoders;
}

cost::MicrobatchShape mean_batch(const PlanningProblem& problem) {
  cost::MicrobatchShape all = simulate::empty_shape();
  for (const std::vector<simulate::SampleSize>& batch : problem.batches)
    for (const simulate::SampleSize& sample : batch) simulate::add_sample(all, sample);
  const auto mean = [batches = std::ssize(problem.batches)](const cost::PassShape& sum) {
    return cost::PassShape{.tokens = sum.tokens / static_cast<double>(batches),
                           .squared_tokens = sum.squared_tokens / static_cast<double>(batches),
                           .sequences = sum.sequences / batches};
  };
  return {.backbone = mean(all.backbone), .encoder = mean(all.encoder), .audio = mean(all.audio)};
}

cost::MicrobatchShape part_of(const cost::MicrobatchShape& batch, double microbatches) {
  const auto part = [microbatches](const cost::PassShape& whole) {
    const double sequences = static_cast<double>(whole.sequences) / microbatches;
    return cost::PassShape{
        .tokens = whole.tokens / microbatches,
        .squared_tokens = whole.squared_tokens / microbatches,
        .sequences = std::max<std::int64_t>(1, static_cast<std::int64_t>(sequences))};
  };
  return {
      .backbone = part(batch.backbone), .encoder = part(batch.encoder), .audio = part(batch.audio)};
}

bool has_equal_samples(const PlanningProblem& problem) {
  const simulate::SampleSize& first = problem.batches.front().front();
  return std::all_of(problem.batches.begin(), problem.batches.end(), [&](const auto& batch) {
    return std::all_of(batch.begin(), batch.end(),
                       [&](const simulate::SampleSize& sample) { return sample == first; });
  });
}

std::size_t different_batches(const PlanningProblem& problem) {
  return has_equal_samples(problem) ? 1 : problem.batches.size();
}

namespace {

/// Whether some samples have a medium while others have none.
bool is_of_some(const PlanningProblem& problem, cost::Media media) {
  const bool first_has = problem.batches.front().front().units(media) > 0;
  return std::ranges::any_of(problem.batches, [&](const std::vector<simulate::SampleSize>& batch) {
    return std::ranges::any_of(batch, [&](const simulate::SampleSize& sample) {
      return (sample.units(media) > 0) != first_has;
    });
  });
}

}  // namespace

SampleSpread::SampleSpread(const PlanningProblem& problem) {
  const cost::MicrobatchShape mean = mean_batch(problem);
  const auto against_mean = [&](const auto& size, double batch) {
    std::int64_t max = 0;
    for (const std::vector<simulate::SampleSize>& samples : problem.batches)
      for (const simulate::SampleSize& sample : samples) max = std::max(max, size(sample));
    return static_cast<double>(max) * static_cast<double>(problem.global_samples()) /
           std::max(1.0, batch);
  };
  const double longest = std::max(
      1.0, against_mean([](const auto& sample) { return sample.tokens; }, mean.backbone.tokens));
  largest = std::max(longest, against_mean([](const auto& sample) { return sample.encoded(); },
                                           mean.encoder.tokens + mean.audio.tokens));
  for (const cost::Media media : cost::kAllMedia) {
    const auto units = [media](const auto& sample) { return sample.units(media); };
    largest_of[static_cast<std::size_t>(media)] =
        std::max(longest, against_mean(units, mean.of(media).tokens));
    if (is_of_some(problem, media)) idle.push_back(media);
  }
}

std::vector<simulate::SampleSize> largest_samples(const std::vector<simulate::SampleSize>& batch) {
  std::vector<simulate::SampleSize> largest = {
      *std::ranges::max_element(batch, {}, &simulate::SampleSize::tokens)};
  for (const cost::Media media : cost::kAllMedia) {
    const auto units = [media](const simulate::SampleSize& sample) { return sample.units(media); };
    const auto max = std::ranges::max_element(batch, {}, units);
    if (max->units(media) > 0) largest.push_back(*max);
  }
  return largest;
}

}  // namespace tributary::plan
